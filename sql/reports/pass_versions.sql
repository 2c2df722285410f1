-- With which versions and settings the passes of a pipeline went over some runs: several where one has not looked again.
select distinct run_id, benchmark, pipeline_hash
from scores
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and strategy is null
  and status = 'ok'
