-- How many calls at once each endpoint of a run was asked for, over time.
select stage, base_url, limit_before, limit_after, cause, created_at
from limit_changes
where run_id = $run_id
order by created_at
