-- What some runs were asked for, and which tree imported ones are of.
select run_id, spec, source
from runs
where list_contains($run_ids, run_id)
