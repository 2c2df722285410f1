-- What judges said of the answers to one question, on the judge's own scale; replaced judgements are left out.
select model, run_tag, sample_index, strategy, judge, score, score_source, judge_output, status, error_class, created_at
from judgements
where benchmark = $benchmark
  and question_id = $question_id
  and not superseded
  and ($models is null or list_contains($models, model))
order by model, run_tag, strategy nulls first, sample_index, judge
