-- What the judges of some runs give beyond their peers.
select run_id, judge, benchmark, leniency, connected_judges
from leniency_adjusted
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and null_policy = $null_policy
  and leniency is not null
