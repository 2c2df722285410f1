-- The strategies that runs have scores of.
select distinct run_id, strategy
from metrics
where list_contains($run_ids, run_id)
  and strategy is not null
