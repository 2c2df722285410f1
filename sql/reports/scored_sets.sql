-- Which judge scored which question set of some runs; is_a: a run of the first side.
select list_contains($first, run_id) as is_a, judge, benchmark, question_set
from metrics
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and strategy is null
  and null_policy = 'legacy'
  and n_scored > 0
