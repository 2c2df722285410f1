-- What judges said of the answers of some runs to one question, on the judge's own scale.
select run_id, sample_index, strategy, judge, score, score_source, judge_output, status, error_class
from judgements
where benchmark = $benchmark
  and question_id = $question_id
  and list_contains($run_ids, run_id)
  and not superseded
order by list_position($run_ids, run_id), strategy nulls first, sample_index, judge
