-- Two runs ($first, $second: MODEL@@TAG or run_id) question by question under the judges they share; largest differences
-- first. Of numbered runs, which a base tag means, scores are averaged.
-- $first: run
-- $second: run
-- $benchmark: benchmark = null
-- $judge: judge = null
with sides as (
    select 'first' as side, run_id
    from named_runs($first)
    union all
    select 'second', run_id
    from named_runs($second)
),
by_question as (
    select side, benchmark, question_set, judge, question_id, avg(score) as score
    from reported_scores
    join sides using (run_id)
    where benchmark = coalesce($benchmark, benchmark)
      and judge = coalesce($judge, judge)
      and pipeline = 'baseline'
      and strategy is null
    group by all
)
select
    one.benchmark, judge, position, category,
    one.score as first_score, two.score as second_score, two.score - one.score as difference,
    questions.question
from (from by_question where side = 'first') as one
join (from by_question where side = 'second') as two using (benchmark, question_set, judge, question_id)
left join questions using (benchmark, question_set, question_id)
order by abs(difference) desc nulls last, one.benchmark, judge, position;
