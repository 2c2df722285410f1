-- What some runs were asked for.
select run_id, spec
from runs
where list_contains($run_ids, run_id)
