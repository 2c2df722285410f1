-- The scores of runs: each judgement in force of the answer that stands now, under the empty pipeline.
-- Every answer has a row for each judge of the run and benchmark, so that denominators can be counted here.
-- Parameters: $first_run_id, $last_run_id, between which all these runs are: files with other runs are not read.
-- Relation: run_judges (run_id, benchmark, judge).
select
    answers.run_id, answers.model, answers.run_tag, answers.benchmark, answers.question_set,
    answers.question_id, answers.sample_index,
    judgements.strategy, run_judges.judge, judgements.judge_config_hash, answers.answer_hash,
    coalesce(judgements.status, 'skipped') as status,
    case
        when judgements.status is null then 'not_judged'
        when judgements.status <> 'ok' then judgements.error_class
    end as error_class,
    'baseline' as pipeline,
    judgements.score as baseline_score,
    judgements.score
from lake.answers
join run_judges
    on run_judges.run_id = answers.run_id
   and run_judges.benchmark = answers.benchmark
left join lake.judgements
    on judgements.run_id = answers.run_id
   and judgements.benchmark = answers.benchmark
   and judgements.judge = run_judges.judge
   and judgements.question_id = answers.question_id
   and judgements.sample_index = answers.sample_index
   and judgements.answer_hash is not distinct from answers.answer_hash
   and judgements.strategy is null
   and not judgements.superseded
   and judgements.run_id between $first_run_id and $last_run_id
where answers.run_id between $first_run_id and $last_run_id
order by answers.benchmark, run_judges.judge, answers.run_id, answers.question_id, answers.sample_index;
