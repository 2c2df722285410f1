-- The answers of runs with their scores: of each strategy, and of the shared samples (strategy null) with the model that
-- each is from. Parameters: $run_ids, $benchmarks and $strategies (null: all).
select
    verdicts.run_id, verdicts.benchmark, verdicts.judge, verdicts.question_id, verdicts.strategy, answer_model as model,
    verdicts.answered, verdicts.status = 'excluded' as undecided,
    verdicts.score
from ensemble_verdicts as verdicts
left join run_benchmarks using (run_id, benchmark)
left join answers
    on verdicts.strategy is null
   and answers.run_id = verdicts.run_id
   and answers.benchmark = verdicts.benchmark
   and answers.question_id = verdicts.question_id
   and answers.sample_index = verdicts.sample_index
where list_contains($run_ids, verdicts.run_id)
  and ($benchmarks is null or list_contains($benchmarks, verdicts.benchmark))
  and (verdicts.strategy is null or $strategies is null or list_contains($strategies, verdicts.strategy))
order by list_position($benchmarks, verdicts.benchmark),
    list_position(coalesce($strategies, run_benchmarks.strategies), verdicts.strategy),
    verdicts.question_id, verdicts.sample_index
