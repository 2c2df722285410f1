-- Scores over the runs of a model and base tag, as the file of its multi-run has them.
select
    judge, pipeline, strategy, null_policy, benchmark, question_set,
    n_runs as n, mean, sd, minimum as min, maximum as max, values_by_run as values
from run_statistics
where model = $model
  and base_tag = $base_tag
order by all
