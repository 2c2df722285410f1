-- The questions of a benchmark with the lowest mean score over all runs ($judge null: of all judges).
-- $judge = null
-- $limit = 20
select
    question_set, position, category, questions.question,
    round(avg(score), 2) as mean_score,
    count(score) as n_scored
from reported_scores
join questions using (benchmark, question_set, question_id)
where benchmark = $benchmark
  and judge = coalesce($judge, judge)
  and pipeline = 'baseline'
group by all
having count(score) > 0
order by mean_score, position
limit $limit::bigint;
