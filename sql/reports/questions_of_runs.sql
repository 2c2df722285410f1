-- The questions of some sides (runs, or all runs of a model), one row each, with each side's mean score on the reported
-- scale in the order of the sides. Where several sides are compared, means are over the judges that scored all of them
-- there: a judge of one side only would move it by its leniency; where no judge did, there is none. Samples and runs of a
-- side are averaged first. Lowest and highest: of the scores of these judges; disagreement: the largest distance between
-- two of them on one side; chosen: the filters leave it (with $every the others come as well).
with known_scales as (
    select unnest($scales, recursive := true)
),
sides as (
    select unnest($sides, recursive := true)
),
own as (
    select
        side, judge, benchmark, question_set, question_id, score, status,
        coalesce(score < minimum or score > maximum, false) as out_of_scale
    from reported_scores
    join sides using (run_id)
    left join known_scales using (benchmark)
    where list_contains($run_ids, reported_scores.run_id)
      and pipeline = $pipeline
      and strategy is null
      and ($judges is null or list_contains($judges, judge))
      and ($judge is null or contains(judge, $judge))
      and ($benchmarks is null or list_contains($benchmarks, benchmark))
      and ($question_id is null or question_id = $question_id)
),
by_judge as (
    select
        side, judge, benchmark, question_set, question_id, avg(score) as score,
        count(*) - count(score) as n_missing, count(*) filter (status = 'error') as n_errors,
        count(*) filter (out_of_scale) as n_out_of_scale
    from own
    group by all
),
complete as (
    select benchmark, question_set, question_id, judge
    from by_judge
    group by all
    having count(score) = $n_sides
),
by_side as (
    select
        benchmark, question_set, question_id, side,
        avg(score order by judge) filter (complete.judge is not null) as score,
        max(score) filter (complete.judge is not null) - min(score) filter (complete.judge is not null) as distance,
        max(score) filter (complete.judge is not null) as highest,
        min(score) filter (complete.judge is not null) as lowest,
        list(judge order by judge) filter (complete.judge is not null) as judges,
        sum(n_missing) as n_missing, sum(n_errors) as n_errors, sum(n_out_of_scale) as n_out_of_scale
    from by_judge
    left join complete using (benchmark, question_set, question_id, judge)
    group by all
),
scored as (
    select
        benchmark, question_set, question_id,
        map_from_entries(list((side, score))) as by_side, max(distance) as disagreement,
        max(highest) as highest, min(lowest) as lowest, any_value(judges) as judges,
        min(score) as score, max(score) as best, max(score) - min(score) as difference,
        sum(n_missing)::bigint as n_missing, sum(n_errors)::bigint as n_errors,
        sum(n_out_of_scale)::bigint as n_out_of_scale
    from by_side
    group by all
),
answered as (
    select
        benchmark, question_set, question_id, count(*) filter (status = 'error') as n_failed_answers,
        count(*) filter (coalesce(answer_ending, finish_reason) in ('refused', 'refusal', 'filtered', 'content_filter'))
            as n_refused
    from answers
    where list_contains($run_ids, run_id)
      and ($benchmarks is null or list_contains($benchmarks, benchmark))
      and ($question_id is null or question_id = $question_id)
    group by all
),
texts as (
    select benchmark, question_id
    from answers
    where $search is not null
      and list_contains($run_ids, run_id)
      and contains(lower(answer), lower($search))
),
found as (
    select
        benchmark, question_set, question_id, position, category, question[:400] as question,
        list_transform(range($n_sides), lambda side: by_side[side]) as scores,
        score, difference, disagreement, lowest, highest, coalesce(judges, []) as judges,
        coalesce(n_missing, 0) as n_missing, coalesce(n_out_of_scale, 0) as n_out_of_scale,
        coalesce(n_failed_answers, 0) as n_failed_answers, coalesce(n_refused, 0) as n_refused,
        coalesce(n_failed_answers, 0) + coalesce(n_errors, 0) as n_failed,
        ($categories is null or list_contains($categories, category))
        and ($category is null or contains(category, $category))
        and ($below is null or score < $below)
        and ($above is null or score > $above)
        and (not list_contains($flags, 'loses') or scores[1] < best)
        and (not list_contains($flags, 'failed') or n_failed > 0 or n_missing > 0)
        and (not list_contains($flags, 'out-of-scale') or n_out_of_scale > 0)
        and (not list_contains($flags, 'refused') or n_refused > 0)
        and (not list_contains($flags, 'disagreement') or disagreement >= 3)
        and (
            $search is null
            or contains(lower(questions.question), lower($search))
            or contains(lower(category), lower($search))
            or contains(lower(question_set || ' ' || position), lower($search))
            or (benchmark, question_id) in (from texts)
        ) as is_chosen
    from answered
    full join scored using (benchmark, question_set, question_id)
    left join questions using (benchmark, question_set, question_id)
    where (not $every or (scored.by_side is not null and position is not null))
      and ($text is null or contains(lower(questions.question), lower($text)))
)
select * exclude (is_chosen), coalesce(is_chosen, false) as chosen, count(*) over () as n_questions
from found
where $every or is_chosen
order by
    case
        when $sort = 'score' then score
        when $sort = 'difference' then -difference
        when $sort = 'disagreement' then -disagreement
        when length($sort) = 1 then scores[strpos('ABCDE', $sort)]
    end nulls last,
    coalesce(list_position($order, benchmark), 1000), benchmark, question_set, position, question_id
limit $limit offset $offset
