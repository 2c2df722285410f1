-- What some judges gave all models on some benchmarks, on the judge's scale, each piece of evidence once.
select model, benchmark, question_id, judge, score
from evidence
where list_contains($benchmarks, benchmark)
  and list_contains($judges, judge)
  and strategy is null
  and score is not null
order by all
