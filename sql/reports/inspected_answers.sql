-- What some runs answered to one question.
select
    run_id, model, run_tag, sample_index, answer, status, error_class, error_message, finish_reason,
    answer_completion_tokens
from answers
where benchmark = $benchmark
  and question_id = $question_id
  and list_contains($run_ids, run_id)
order by list_position($run_ids, run_id), sample_index
