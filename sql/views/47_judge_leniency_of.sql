-- judge_leniency_of(patterns): what the view judge_leniency says, of the patterns in a table or a CTE of this name, with the columns of
-- score_patterns: for who asks several things of the same patterns.
create macro judge_leniency_of(patterns) as table
with by_judge as (
    select benchmark, unnest(scores) as own, mean, n_judges, n
    from query_table(patterns)
    where n_judges > 1
),
given as (
    select own.judge as judge, benchmark, own.score - mean as difference, n_judges, n
    from by_judge
),
everywhere as (
    from given
    union all by name
    select * replace ('overall' as benchmark)
    from given
),
differences as (
    select judge, benchmark, difference, n_judges, sum(n) as n
    from everywhere
    group by all
),
means as (
    select
        judge, benchmark, sum(n * difference order by difference, n_judges) / sum(n) as mean_difference,
        sum(n)::bigint as n_answers, sum(n * n_judges) / sum(n) as mean_judges
    from differences
    group by all
),
spreads as (
    select
        judge, benchmark,
        sum(n * (difference - mean_difference) ** 2 order by difference, differences.n_judges) as squares
    from differences
    join means using (judge, benchmark)
    group by all
)
select judge, benchmark, mean_difference, sqrt(squares / nullif(n_answers - 1, 0)) as sd, n_answers, mean_judges
from means
join spreads using (judge, benchmark);
