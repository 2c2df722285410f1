-- The runs of one model under each judge, a column for each question set.
-- $model: model
-- $judge: judge = null
select
    judge, base_tag, run_number, run_tag, status, scores, mean, mean_upper, n_benchmarks, n_scored,
    n_planned, n_failed, n_undecided, n_excluded, pipeline, strategy, created_at
from runs_of_model
where model = $model
  and judge = coalesce($judge, judge)
order by judge, pipeline, strategy, base_tag, run_number;
