-- The runs among some that use replies of other runs, with the numbers by stage and run.
select run_id, reused_replies
from runs
where list_contains($run_ids, run_id) and reused_replies is not null
order by run_id
