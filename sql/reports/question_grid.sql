-- The questions that any of some sides was asked, one row each, with each side's mean score on the reported scale in the
-- order of the sides. Where several judges scored, a question's means are over those that scored all sides; samples and
-- runs of a side are averaged first. Lowest and highest: of the scores of these judges; disagreement: the largest
-- distance between two of them on one side.
with known_scales as (
    select unnest($scales, recursive := true)
),
sides as (
    select unnest($sides, recursive := true)
),
own as (
    select
        side, reported_scores.run_id, judge, benchmark, question_set, question_id, score,
        coalesce(score < minimum or score > maximum, false) as out_of_scale
    from reported_scores
    join sides using (run_id)
    left join known_scales using (benchmark)
    where list_contains($run_ids, reported_scores.run_id)
      and pipeline = $pipeline
      and strategy is null
      and ($judges is null or list_contains($judges, judge))
      and ($benchmark is null or benchmark = $benchmark)
      and ($question_id is null or question_id = $question_id)
),
by_judge as (
    select
        side, judge, benchmark, question_set, question_id,
        avg(score) as score, count(*) - count(score) as n_missing, count(*) filter (out_of_scale) as n_out_of_scale
    from own
    group by all
),
complete as (
    select benchmark, question_set, question_id, judge
    from by_judge
    group by all
    having count(score) = $n_sides
),
-- Questions that no judge scored for all sides have no means that compare.
by_side as (
    select
        benchmark, question_set, question_id, side,
        avg(score order by judge) filter (complete.judge is not null) as score,
        max(score) filter (complete.judge is not null) - min(score) filter (complete.judge is not null) as distance,
        max(score) filter (complete.judge is not null) as highest,
        min(score) filter (complete.judge is not null) as lowest,
        count(complete.judge) as n_judges,
        sum(n_missing) as n_missing,
        sum(n_out_of_scale) as n_out_of_scale
    from by_judge
    left join complete using (benchmark, question_set, question_id, judge)
    group by all
),
endings as (
    select
        benchmark, question_id, count(*) filter (status = 'error') as n_failed,
        count(*) filter (coalesce(answer_ending, finish_reason) in ('refused', 'refusal', 'filtered', 'content_filter'))
            as n_refused
    from answers
    where list_contains($run_ids, run_id)
      and ($benchmark is null or benchmark = $benchmark)
      and ($question_id is null or question_id = $question_id)
    group by all
),
by_question as (
    select
        benchmark, question_set, question_id,
        map_from_entries(list((side, score))) as by_side,
        max(distance) as disagreement, max(highest) as highest, min(lowest) as lowest,
        max(n_judges) as n_judges,
        max(score) - min(score) as difference,
        sum(n_missing)::bigint as n_missing,
        sum(n_out_of_scale)::bigint as n_out_of_scale
    from by_side
    group by all
)
select
    benchmark, question_set, question_id, position, category, left(questions.question, 300) as question,
    list_transform(range($n_sides), lambda side: by_side[side]) as scores,
    difference, disagreement, lowest, highest, n_judges, n_missing, n_out_of_scale,
    coalesce(n_failed, 0) as n_failed, coalesce(n_refused, 0) as n_refused
from by_question
join questions using (benchmark, question_set, question_id)
left join endings using (benchmark, question_id)
where ($text is null or contains(lower(questions.question), lower($text)))
order by coalesce(list_position($order, benchmark), 1000), benchmark, question_set, position
