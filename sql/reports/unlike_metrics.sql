-- Runs with a metric that is not the mean of the single scores beside it, which only a damaged file can make.
select distinct run_id
from lake.metrics
where null_policy = 'legacy'
  and len(question_scores) > 0
  and not coalesce(abs(score - list_avg(question_scores)) < 1e-6, score is null)
order by run_id
