-- A model's mean scores by the month in which its answers were judged; unknown: imported without a time.
-- $model: model
-- $judge: judge = null
-- $benchmark: benchmark = null
select
    judge, benchmark, question_set, coalesce(strftime(month, '%Y-%m'), 'unknown') as month,
    round(score, 3) as score, round(sd, 3) as sd, n_scored, n_judgements, n_superseded, n_runs, n_judge_configs
from drift
where model = $model
  and judge = coalesce($judge, judge)
  and benchmark = coalesce($benchmark, benchmark)
order by judge, benchmark, question_set, drift.month nulls first;
