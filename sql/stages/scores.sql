-- The scores of runs: each judgement in force of the answer that stands now, under the empty pipeline.
-- Every answer, and every consensus of the run's samples, has a row for each judge of the run and benchmark, so that
-- denominators can be counted here.
-- Parameters: $first_run_id, $last_run_id, between which all these runs are: files with other runs are not read.
-- Relation: run_judges (run_id, benchmark, judge).
with judged_texts as (
    select run_id, model, run_tag, benchmark, question_set, question_id, sample_index, null as strategy, answer_hash,
        request_hash
    from lake.answers
    where run_id between $first_run_id and $last_run_id
    union all
    select run_id, model, run_tag, benchmark, question_set, question_id, 0 as sample_index, strategy, answer_hash, null
    from lake.consensus
    where run_id between $first_run_id and $last_run_id
)
select
    judged_texts.run_id, judged_texts.model, judged_texts.run_tag, judged_texts.benchmark, judged_texts.question_set,
    judged_texts.question_id, judged_texts.sample_index,
    judged_texts.strategy, run_judges.judge, judgements.judge_config_hash, judged_texts.answer_hash,
    coalesce(judgements.status, 'skipped') as status,
    case
        when judgements.status is null then 'not_judged'
        when judgements.status <> 'ok' then judgements.error_class
    end as error_class,
    'baseline' as pipeline,
    judgements.score as baseline_score,
    judgements.score,
    judgements.judge_prompt_hash,
    null::varchar as pipeline_hash,
    -- A rule makes no calls: its verdict is as new as the answer.
    coalesce(
        judgements.request_hash, case when starts_with(run_judges.judge, 'rule:') then judged_texts.request_hash end
    ) as call_hash,
    judgements.created_at as judged_at,
    judgements.out_of_scale
from judged_texts
join run_judges
    on run_judges.run_id = judged_texts.run_id
   and run_judges.benchmark = judged_texts.benchmark
left join lake.judgements
    on judgements.run_id = judged_texts.run_id
   and judgements.benchmark = judged_texts.benchmark
   and judgements.judge = run_judges.judge
   and judgements.question_id = judged_texts.question_id
   and judgements.sample_index = judged_texts.sample_index
   and judgements.strategy is not distinct from judged_texts.strategy
   and judgements.answer_hash is not distinct from judged_texts.answer_hash
   and not judgements.superseded
   and judgements.run_id between $first_run_id and $last_run_id
order by
    judged_texts.benchmark, run_judges.judge, judged_texts.run_id, judged_texts.strategy, judged_texts.question_id,
    judged_texts.sample_index;
