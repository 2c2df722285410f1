-- What each pass of a pipeline added to the scores of some runs' answers to one question.
select run_id, sample_index, strategy, judge, deltas
from scores
where benchmark = $benchmark
  and question_id = $question_id
  and list_contains($run_ids, run_id)
  and pipeline = $pipeline
