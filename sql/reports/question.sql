-- One question of a benchmark by its place in a set: the set that is named, else the largest.
select benchmark, question_set, question_id, position, category, question, reference, criteria
from (
    select *, count(*) over (partition by question_set) as n_in_set
    from questions
    where benchmark = $benchmark
)
where position = $position
  and ($question_set is null or question_set = $question_set)
order by n_in_set desc, question_set
limit 1
