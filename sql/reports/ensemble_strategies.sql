-- The strategies that a run has results of.
select distinct strategy
from ensemble_results
where run_id = $run_id
