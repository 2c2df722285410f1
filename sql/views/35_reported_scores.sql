-- Scores on the reported scale (ELYZA ×2), one row per planned sample, judge and pipeline; null is no score. What a rule
-- could not decide (undecided) has the score of a wrong answer.
create view reported_scores as
with scales as (
    select benchmark, max(reported_multiplier) as reported_multiplier
    from lake.metrics
    group by benchmark
)
select
    scores.* exclude (baseline_score, deltas, score),
    status = 'excluded' and starts_with(judge, 'rule:') as undecided,
    case when undecided then 0.0 else score * reported_multiplier end as score
from lake.scores
join scales using (benchmark);
