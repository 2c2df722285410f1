-- The scores of some runs, each with what it was without passes, what was asked, and who judged with which prompt.
with chosen as (
    from metrics
    where null_policy = $null_policy
      and pipeline = $pipeline
      and strategy is null
      and (
          $models is null and $tags is null and $sources is null
          or run_id in (from selected_runs($models, $tags, $sources))
      )
      and ($first_runs is null or run_number <= $first_runs)
      and ($judges is null or list_contains($judges, judge))
),
baselines as (
    select run_id, judge, benchmark, score as baseline_score
    from metrics
    where pipeline = 'baseline' and $pipeline <> 'baseline' and strategy is null and null_policy = $null_policy
)
select
    run_id, model, run_tag, judge, benchmark, question_set, pipeline, null_policy, score, score_upper, sd_questions,
    n_planned, n_scored, n_failed, n_undecided, n_excluded, coalesce(n_out_of_scale, 0) as n_out_of_scale, baseline_score,
    n_asked,
    judge_prompt_hash, judge_config_hash, pipeline_hash, base_tag, run_number, source,
    judge_prompt_of(judge, judge_prompt_hash, source) as judge_prompt
from chosen
left join (select run_id, source from runs) using (run_id)
left join baselines using (run_id, judge, benchmark)
left join limited_sets using (run_id, benchmark, question_set)
order by model, run_tag, judge, benchmark
