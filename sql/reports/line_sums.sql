-- What intervals need of the single scores of some lines (runs and judges put together): for each line and benchmark
-- the mean of all scores, and the sum over questions of the square of the sum of its deviations from it; over
-- categories where there are $fewest_categories or more (questions without one have one of their own), null: never.
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
categories as (
    select benchmark, question_id, min(category) as category
    from questions
    group by all
),
given as (
    select
        line, run_id, judge, benchmark, n_planned, minimum, hash(question_id) as question,
        hash(coalesce(category, '')) as category,
        coalesce(
            case when $null_policy = 'legacy' or out_of_scale is not true then score end,
            case when $null_policy = 'zero' then minimum end
        ) as score
    from reported_scores
    join cells using (run_id, judge, benchmark)
    left join categories using (benchmark, question_id)
    where pipeline = $pipeline
      and run_id in (select run_id from cells)
      and strategy is null
      and ((benchmark, question_id) in (from chosen) or benchmark not in (select benchmark from chosen))
),
-- A planned sample without a row is a missing score as well; of which question it is does not matter.
without_row as (
    select line, judge, benchmark, hash(unnest(range(n_planned - count(*)))) as question, null as category,
        minimum as score
    from given
    where $null_policy = 'zero'
    group by line, run_id, judge, benchmark, n_planned, minimum
),
asked as (
    select line, judge, benchmark, question, category, score from given
    union all
    from without_row
),
sizes as (
    select line, benchmark, count(distinct category) as n_categories
    from asked
    where score is not null
    group by all
),
by_cluster as (
    select
        line, benchmark, n_categories,
        case when n_categories >= $fewest_categories then coalesce(category, hash('')) else question end as cluster,
        sum(score) as total, count(*) as n, min(score) as least, max(score) as most
    from asked
    join sizes using (line, benchmark)
    where score is not null
    group by all
),
means as (
    select line, benchmark, sum(total order by cluster) / sum(n) as mean
    from by_cluster
    group by all
),
lists as (
    select line, benchmark, list({'judge': judge, 'questions': questions, 'scores': scores} order by judge) as by_judge
    from (
        select
            line, benchmark, judge,
            list(question order by question) as questions,
            list(score order by question) as scores
        from asked
        where $with_questions
        group by all
    )
    group by all
)
select
    line, benchmark, mean, sum(n)::bigint as n_values, count(*) as n_clusters,
    sum((total - n * mean) ** 2 order by cluster) as squares, min(least) as least, max(most) as most,
    any_value(n_categories) as n_categories, any_value(by_judge) as by_judge
from by_cluster
join means using (line, benchmark)
left join lists using (line, benchmark)
group by all
