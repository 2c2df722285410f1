-- What failed in a run, by class.
from ({failures})
where run_id = $run_id
