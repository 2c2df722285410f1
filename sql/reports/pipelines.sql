-- Under which passes some runs have scores.
select distinct pipeline
from metrics
where strategy is null
  and (
      $models is null and $tags is null and $sources is null
      or run_id in (from selected_runs($models, $tags, $sources))
  )
  and ($first_runs is null or run_number <= $first_runs)
order by pipeline
