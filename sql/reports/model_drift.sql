-- A model's scores by the month in which a judge was asked.
select judge, benchmark, question_set, month, score, sd, n_scored, n_judgements, n_runs
from drift
where model = $model
order by judge, benchmark, question_set, month nulls first
