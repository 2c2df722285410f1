-- All questions of some benchmarks, in every set.
select benchmark, question_set, question_id, position, upstream_id, category, question, reference, criteria
from lake.questions
where list_contains($benchmarks, benchmark)
