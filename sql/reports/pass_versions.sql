-- With which versions and settings the passes of a pipeline went over some runs: several where one has not looked again,
-- of which the metrics name one.
select distinct run_id, benchmark, pipeline_hash
from (
    select run_id, benchmark, pipeline, strategy, pipeline_hash from scores where status = 'ok'
    union all
    select run_id, benchmark, pipeline, strategy, pipeline_hash from metrics where null_policy = 'legacy'
)
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and strategy is null
