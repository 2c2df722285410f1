-- The whole text of one question.
select question, reference, criteria
from questions
where benchmark = $benchmark
  and question_set = $question_set
  and question_id = $question_id
limit 1
