-- The same over the questions of other sets, or with objects in place of scores (see the query leaderboard_over).
with own as (
    from ({leaderboard_over})
    where strategy is null
),
baselines as (
    select run_id, judge, benchmark, question_set, score as baseline_score
    from own
    where pipeline = 'baseline' and $pipeline <> 'baseline'
),
versions as (
    select run_id, judge, benchmark, pipeline, judge_prompt_hash, judge_config_hash, pipeline_hash
    from metrics
    where strategy is null
      and null_policy = $policy
)
select
    run_id, model, run_tag, judge, benchmark, question_set, pipeline, null_policy, score, score_upper, sd_questions,
    n_planned, n_scored, n_failed, n_undecided, n_excluded, 0 as n_out_of_scale, baseline_score, null as n_asked,
    versions.judge_prompt_hash, versions.judge_config_hash, versions.pipeline_hash, base_tag, run_number,
    source, judge_prompt_of(judge, versions.judge_prompt_hash, source) as judge_prompt
from own
left join baselines using (run_id, judge, benchmark, question_set)
left join versions using (run_id, judge, benchmark, pipeline)
left join (select run_id, source from runs) using (run_id)
where pipeline = $pipeline
  and (
      $models is null and $tags is null and $sources is null
      or run_id in (from selected_runs($models, $tags, $sources))
  )
  and ($first_runs is null or run_number <= $first_runs)
  and ($judges is null or list_contains($judges, judge))
order by model, run_tag, judge, benchmark
