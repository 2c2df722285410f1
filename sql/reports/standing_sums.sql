-- What intervals need of the single scores of some lines of rankings (runs and judges put together): for each line and
-- benchmark the mean of all scores, and the sum over questions of the square of the sum of its deviations from it.
-- With $with_questions also what ties need: each judge's scores (null: none was given), with their questions as numbers.
with cells as (
    select
        unnest($lines) as line, unnest($run_ids) as run_id, unnest($judges) as judge, unnest($benchmarks) as benchmark,
        unnest($n_planned) as n_planned, unnest($minimums) as minimum
),
chosen as (
    select distinct benchmark, question_id
    from questions
    where list_contains($question_sets, question_set)
),
given as (
    select
        line, run_id, judge, benchmark, n_planned, minimum, question_id as question,
        coalesce(
            case when $null_policy = 'legacy' or out_of_scale is not true then score end,
            case when $null_policy = 'zero' then minimum end
        ) as score
    from reported_scores
    join cells using (run_id, judge, benchmark)
    where pipeline = $pipeline
      and strategy is null
      and ((benchmark, question_id) in (from chosen) or benchmark not in (select benchmark from chosen))
),
-- A planned sample without a row is a missing score as well; of which question it is does not matter.
without_row as (
    select line, judge, benchmark, unnest(range(n_planned - count(*)))::varchar as question, minimum as score
    from given
    where $null_policy = 'zero'
    group by line, run_id, judge, benchmark, n_planned, minimum
),
asked as (
    select line, judge, benchmark, question, score from given
    union all
    from without_row
),
by_question as (
    select line, benchmark, question, sum(score) as total, count(*) as n, min(score) as least, max(score) as most
    from asked
    where score is not null
    group by all
),
means as (
    select line, benchmark, sum(total order by question) / sum(n) as mean
    from by_question
    group by all
),
lists as (
    select line, benchmark, list({'judge': judge, 'questions': questions, 'scores': scores} order by judge) as by_judge
    from (
        select
            line, benchmark, judge,
            list(hash(question) order by question) as questions,
            list(score order by question) as scores
        from asked
        where $with_questions
        group by all
    )
    group by all
)
select
    line, benchmark, mean, sum(n)::bigint as n_values, count(*) as n_clusters,
    sum((total - n * mean) ** 2 order by question) as squares, min(least) as least, max(most) as most,
    any_value(by_judge) as by_judge
from by_question
join means using (line, benchmark)
left join lists using (line, benchmark)
group by all
