-- The questions of a benchmark with the lowest mean score over all runs, each piece of evidence once ($judge null: of all judges).
-- $benchmark: benchmark
-- $judge: judge = null
-- $limit = 20
select
    question_set, position, category, questions.question,
    round(avg(reported_score), 2) as mean_score,
    count(reported_score) as n_scored
from (select *, unnest(question_sets) as question_set from evidence)
join questions using (benchmark, question_set, question_id)
where benchmark = $benchmark
  and judge = coalesce($judge, judge)
group by all
having count(reported_score) > 0
order by mean_score, position
limit $limit::bigint;
