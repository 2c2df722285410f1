-- The runs that have scores, in the order of their numbers.
select distinct run_id, metrics.model, metrics.run_tag, metrics.base_tag, metrics.run_number, import_tag, source
from metrics
left join runs using (run_id)
order by run_number, run_tag
