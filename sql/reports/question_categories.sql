-- The category of each question, and whether it is in one of some question sets.
select
    benchmark, question_id, coalesce(min(category), '') as category,
    coalesce(bool_or(list_contains($question_sets, question_set)), false) as is_chosen
from questions
group by benchmark, question_id
