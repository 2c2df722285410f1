-- What each pass of a pipeline added to the scores of some runs' answers to some questions of a benchmark.
select question_id, run_id, sample_index, strategy, judge, deltas
from scores
where benchmark = $benchmark
  and list_contains($question_ids, question_id)
  and list_contains($run_ids, run_id)
  and pipeline = $pipeline
