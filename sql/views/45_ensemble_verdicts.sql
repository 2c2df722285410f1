-- What is right and what is wrong in runs whose answers are graded by rules: one row per question × shared sample
-- (strategy null) and question × strategy (single is the answer without a consensus). The judge is the one with a grading
-- model where there is one. A failure or an abstention is not correct. The single answer's own sample is not shared.
create view ensemble_verdicts as
with graded as (
    select *, max(judge) over (partition by run_id, benchmark) as best_judge
    from lake.scores
    where starts_with(judge, 'rule:')
      and pipeline = 'baseline'
)
select
    run_id, graded.model, graded.run_tag, benchmark, graded.question_set, question_id, sample_index, strategy, judge,
    answer_hash, status, error_class,
    coalesce(score, 0) = 1 as correct
from graded
left join run_benchmarks using (run_id, benchmark)
where judge = best_judge
  and (strategy is not null or sample_index > 0 or single is distinct from 'own');
