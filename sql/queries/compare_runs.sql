-- Two runs ($first, $second: run_id) question by question under the judges they share; largest differences first.
-- $first: run
-- $second: run
-- $benchmark: benchmark = null
-- $judge: judge = null
with by_question as (
    select run_id, benchmark, question_set, judge, question_id, avg(score) as score
    from reported_scores
    where run_id in ($first, $second)
      and benchmark = coalesce($benchmark, benchmark)
      and judge = coalesce($judge, judge)
      and pipeline = 'baseline'
      and strategy is null
    group by all
)
select
    one.benchmark, judge, position, category,
    one.score as first_score, two.score as second_score, two.score - one.score as difference,
    questions.question
from (from by_question where run_id = $first) as one
join (from by_question where run_id = $second) as two using (benchmark, question_set, judge, question_id)
left join questions using (benchmark, question_set, question_id)
order by abs(difference) desc nulls last, one.benchmark, judge, position;
