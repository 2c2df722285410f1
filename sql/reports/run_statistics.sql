-- Scores over the runs of some multi-runs.
select model, base_tag, judge, benchmark, n_runs, mean, mean_upper, sd, minimum, maximum, values_by_run
from run_statistics_of($first_runs)
where strategy is null
  and null_policy = $null_policy
  and pipeline = $pipeline
  and ($judges is null or list_contains($judges, judge))
  and list_contains($base_tags, base_tag)
order by model, base_tag, judge, benchmark = 'overall', benchmark
