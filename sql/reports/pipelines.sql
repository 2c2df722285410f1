-- Under which passes some runs have scores.
select distinct pipeline
from metrics
where strategy is null
  and ($models is null or list_contains($models, model))
  and (
      $tags is null or list_contains($tags, run_tag) or list_contains($tags, base_tag)
      or run_id in (from imported_runs($tags, null))
  )
  and ($sources is null or run_id in (from imported_runs(null, $sources)))
  and ($first_runs is null or run_number <= $first_runs)
order by pipeline
