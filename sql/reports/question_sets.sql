-- Every version of every benchmark's questions.
select benchmark, question_set, count(*) as n_questions
from questions
group by all
order by all
