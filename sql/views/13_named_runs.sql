-- named_runs(name): the run of an identity or of MODEL@@TAG, else the numbered runs or imports that the tag means.
create macro named_runs(name) as table
select run_id
from lake.runs
where run_id in (from selected_runs([name], null, null))
qualify rank() over (order by (run_id = name or model || '@@' || run_tag = name) desc) = 1;
