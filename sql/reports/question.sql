-- A question by its place in a set or by its id: in the set that is named, else in the largest. What is null is not asked for.
with sizes as (
    select benchmark, question_set, count(*) as n_questions
    from questions
    where ($benchmark is null or benchmark = $benchmark)
      and ($question_set is null or question_set = $question_set)
    group by all
)
select benchmark, question_set, question_id, position, n_questions, category, question, reference, criteria
from questions
join sizes using (benchmark, question_set)
where ($position is null or position = $position)
  and ($question_id is null or question_id = $question_id)
order by n_questions desc, question_set
limit 1
