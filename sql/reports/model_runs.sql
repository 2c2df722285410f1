-- The runs of a model by judge and passes, oldest first: scores by question set, their mean and denominators.
select
    base_tag, run_tag, run_number, judge, pipeline, strategy, scores, mean, mean_upper, n_benchmarks, n_planned,
    n_scored, n_failed, n_undecided, n_excluded, status, created_at, run_id
from runs_of_model
where model = $model
order by judge, pipeline, strategy nulls first, created_at, run_number, run_tag
