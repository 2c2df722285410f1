-- With which settings the passes of a pipeline went over some runs.
select distinct run_id, benchmark, pipeline_hash
from metrics
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and strategy is null
  and null_policy = 'legacy'
