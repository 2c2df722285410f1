-- The scores of several samples and of what strategies made of them: one row per judge and question × shared sample
-- (strategy null) or question × strategy (single is the answer without a consensus), without passes. Where rules grade, of
-- benchmarks without a strategy as well, the judge is the one with a grading model where there is one, and correct says
-- whether the answer is right: a failure or an abstention is not. score: 1 or 0 then, else on the reported scale; answered:
-- it can be compared, since no call failed. The single answer's own sample is not shared.
create view ensemble_verdicts as
with graded as (
    select * replace (coalesce(score = 1, false)::integer::double as score), score is not distinct from 1 as correct
    from lake.scores
    where starts_with(judge, 'rule:')
      and pipeline = 'baseline'
    qualify judge = max(judge) over (partition by run_id, benchmark)
),
judged as (
    select reported_scores.*
    from reported_scores
    join run_benchmarks using (run_id, benchmark)
    where not starts_with(judge, 'rule:')
      and pipeline = 'baseline'
      and single is not null
)
select
    run_id, scored.model, scored.run_tag, benchmark, scored.question_set, question_id, sample_index, strategy, judge,
    answer_hash, status, error_class, correct, score,
    case when correct is null then score is not null else status in ('ok', 'excluded') end as answered
from (from graded union all by name from judged) as scored
left join run_benchmarks using (run_id, benchmark)
where strategy is not null
   or sample_index > 0
   or single is distinct from 'own';
