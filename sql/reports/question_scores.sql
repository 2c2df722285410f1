-- The single scores of some runs, as the metrics have them: a row for each list of questions, with the runs and judges that
-- have scores of these as JSON.
-- $cells: run, judge and benchmark of each wanted one, as JSON: of thousands a list would take as long as all the rest.
with cells as (
    select cell[1] as run_id, cell[2] as judge, cell[3] as benchmark
    from (select unnest(from_json($cells, '[["varchar"]]')) as cell)
)
select
    benchmark, coalesce(any_value(question_ids), []) as question_ids,
    to_json(list({
        'run_id': run_id, 'judge': judge, 'scores': coalesce(question_scores, []), 'undecided': undecided
    }))::varchar as cells
from lake.metrics
semi join cells using (run_id, judge, benchmark)
where pipeline = $pipeline
  and null_policy = $null_policy
  and strategy is null
group by benchmark, hash(question_ids)
