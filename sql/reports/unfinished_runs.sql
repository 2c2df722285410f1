-- Of some runs those that are not complete; what decisions asked is not meant to be.
select run_id, model, run_tag, status, status_by_benchmark
from runs
where status not in ('complete', 'decision')
  and run_id in (from selected_runs($models, $tags, $sources))
  and ($first_runs is null or run_number <= $first_runs)
order by model, run_tag
