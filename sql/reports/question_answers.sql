-- What models answered to one question.
select model, run_tag, question_set, sample_index, answer, status, error_class, finish_reason, created_at
from answers
where benchmark = $benchmark
  and question_id = $question_id
  and ($models is null or list_contains($models, model))
order by model, run_tag, sample_index
