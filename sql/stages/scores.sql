-- The scores of one run: each judgement in force of the answer that stands now, under the empty pipeline.
-- Every answer has a row for each judge of the run, so that denominators can be counted here.
-- Parameters: $run_id, $benchmarks (list). Relation: run_judges (judge).
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
cross join run_judges
left join lake.judgements
    on judgements.run_id = answers.run_id
   and judgements.benchmark = answers.benchmark
   and judgements.judge = run_judges.judge
   and judgements.question_id = answers.question_id
   and judgements.sample_index = answers.sample_index
   and judgements.answer_hash is not distinct from answers.answer_hash
   and judgements.strategy is null
   and not judgements.superseded
where answers.run_id = $run_id
  and list_contains($benchmarks, answers.benchmark)
order by answers.benchmark, run_judges.judge, answers.question_id, answers.sample_index;
