-- A page of the questions that some runs were asked, with each run's score (the mean over samples and over the judges
-- that scored all of them here, on the reported scale; none where no judge did), how far judges are apart, what failed,
-- and how far the runs are apart.
with answered as (
    select run_id, benchmark, question_set, question_id, count(*) filter (status = 'error') as n_failed
    from answers
    where list_contains($run_ids, run_id)
      and ($benchmark is null or benchmark = $benchmark)
    group by all
),
by_judge as (
    select run_id, benchmark, question_set, question_id, judge,
        avg(score) as score, count(*) filter (status = 'error') as n_failed
    from reported_scores
    where list_contains($run_ids, run_id)
      and ($benchmark is null or benchmark = $benchmark)
      and ($judge is null or contains(judge, $judge))
      and pipeline = 'baseline'
      and strategy is null
    group by all
),
-- A judge of one run only would move it by its leniency.
shared as (
    select benchmark, question_set, question_id, judge
    from by_judge
    group by all
    having count(score) = len($run_ids)
),
by_run as (
    select
        run_id, benchmark, question_set, question_id,
        avg(score order by judge) filter (shared.judge is not null) as score,
        max(score) filter (shared.judge is not null) - min(score) filter (shared.judge is not null) as disagreement,
        sum(n_failed) as n_failed
    from by_judge
    left join shared using (benchmark, question_set, question_id, judge)
    group by all
),
by_question as (
    select
        benchmark, question_set, question_id,
        map_from_entries(list((run_id, by_run.score) order by run_id)) as scores,
        min(by_run.score) as score,
        max(by_run.score) - min(by_run.score) as difference,
        max(disagreement) as disagreement,
        sum(answered.n_failed + coalesce(by_run.n_failed, 0))::bigint as n_failed
    from answered
    left join by_run using (run_id, benchmark, question_set, question_id)
    group by all
),
texts as (
    select benchmark, question_id
    from answers
    where $search is not null
      and list_contains($run_ids, run_id)
      and contains(lower(answer), lower($search))
),
chosen as (
    select by_question.*, position, category, question
    from by_question
    left join questions using (benchmark, question_set, question_id)
    where ($category is null or contains(category, $category))
      and ($below is null or score < $below)
      and ($above is null or score > $above)
      and (not $failed or n_failed > 0)
      and (not $loses or (difference > 0 and scores[$run_ids[1]] < list_max(map_values(scores))))
      and (
          $search is null
          or contains(lower(question), lower($search))
          or contains(lower(category), lower($search))
          or contains(lower(question_set || ' ' || position), lower($search))
          or (benchmark, question_id) in (from texts)
      )
)
select
    benchmark, question_set, question_id, position, category, question[:400] as question, scores, difference,
    disagreement, n_failed, count(*) over () as n_questions
from chosen
order by
    case $sort
        when 'score' then score
        when 'difference' then -difference
        when 'disagreement' then -disagreement
    end nulls last,
    benchmark, question_set, position, question_id
limit $limit offset $offset
