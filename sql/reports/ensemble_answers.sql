-- The answers of a run to questions that rules grade: of each strategy, and of the shared samples (strategy null) with the
-- model that each is from. Answered: no call failed, though nothing may have been read in it.
-- Parameters: $run_id, $benchmarks, $strategies.
select
    verdicts.benchmark, verdicts.question_id, verdicts.strategy, answer_model as model,
    verdicts.status in ('ok', 'excluded') as answered,
    verdicts.correct
from ensemble_verdicts as verdicts
left join answers
    on verdicts.strategy is null
   and answers.run_id = verdicts.run_id
   and answers.benchmark = verdicts.benchmark
   and answers.question_id = verdicts.question_id
   and answers.sample_index = verdicts.sample_index
where verdicts.run_id = $run_id
  and list_contains($benchmarks, verdicts.benchmark)
  and (verdicts.strategy is null or list_contains($strategies, verdicts.strategy))
order by list_position($benchmarks, verdicts.benchmark), list_position($strategies, verdicts.strategy),
    verdicts.question_id, verdicts.sample_index
