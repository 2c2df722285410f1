-- The runs that have scores, in the order of their numbers.
select distinct run_id, model, run_tag, base_tag, run_number
from metrics
order by run_number, run_tag
