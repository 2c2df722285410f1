-- The single scores of some runs, as the metrics have them: a row for each list of questions, with the runs and judges that
-- have scores of these as JSON. question_ids is null where metrics are of before format 6 (filled_metrics has their scores).
with cells as (
    select unnest($run_ids) as run_id, unnest($judges) as judge, unnest($benchmarks) as benchmark
)
select
    benchmark, any_value(question_ids) as question_ids,
    to_json(list({'run_id': run_id, 'judge': judge, 'scores': question_scores}))::varchar as cells
from lake.metrics
semi join cells using (run_id, judge, benchmark)
where pipeline = $pipeline
  and null_policy = $null_policy
  and strategy is null
group by benchmark, hash(question_ids)
