-- Of some runs those that are not complete; what decisions asked is not meant to be.
select run_id, model, run_tag, status, status_by_benchmark
from runs
where status not in ('complete', 'decision')
  and ($models is null or list_contains($models, model))
  and (
      $tags is null or list_contains($tags, run_tag) or list_contains($tags, base_tag)
      or run_id in (from imported_runs($tags, null))
  )
  and ($sources is null or run_id in (from imported_runs(null, $sources)))
  and ($first_runs is null or run_number <= $first_runs)
order by model, run_tag
