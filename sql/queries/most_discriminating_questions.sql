-- The questions of a benchmark whose score tells most about the rest of a run, under one judge (null: each judge).
-- $benchmark: benchmark
-- $judge: judge = null
-- $limit = 20
select
    question_set, judge, questions.position, questions.category, questions.question,
    round(discrimination, 3) as discrimination, round(difficulty, 2) as difficulty, round(sd, 2) as sd, n_runs
from question_statistics
join questions using (benchmark, question_set, question_id)
where benchmark = $benchmark
  and judge = coalesce($judge, judge)
order by question_statistics.discrimination desc nulls last, judge, questions.position
limit $limit::bigint;
