-- Some runs: their state, what they were asked for, what of it was not sent, and which tree imported ones are of.
select run_id, status, status_by_benchmark, spec, not_sent, source
from runs
where list_contains($run_ids, run_id)
