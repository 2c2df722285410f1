-- The questions with the lowest mean score of a benchmark over all runs and judges ($benchmark, e.g. tengu).
select
    question_set, position, category, questions.question,
    round(avg(score), 2) as mean_score,
    count(score) as n_scored
from scores
join questions using (benchmark, question_set, question_id)
where benchmark = $benchmark
  and pipeline = 'baseline'
group by all
having count(score) > 0
order by mean_score, position
limit 20;
