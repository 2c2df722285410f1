-- judge_agreement_of(patterns): what the view judge_agreement says, of the patterns in a table or a CTE of this name, with the columns of
-- score_patterns: for who asks several things of the same patterns.
create macro judge_agreement_of(patterns) as table
with given as (
    select benchmark, unnest(scores) as a, scores, n
    from query_table(patterns)
    where n_judges > 1
),
pairs as (
    select benchmark, a, unnest(scores) as b, n
    from given
),
counted as (
    select a.judge as judge_a, b.judge as judge_b, benchmark, a.score as score_a, b.score as score_b, sum(n)::bigint as n
    from pairs
    where a.judge < b.judge
    group by all
),
everywhere as (
    from counted
    union all by name
    select judge_a, judge_b, 'overall' as benchmark, score_a, score_b, sum(n) as n
    from counted
    group by all
),
ranked as (
    select
        *,
        -- Rows up to here, less half of those with the same score: the mean rank of the tied.
        sum(n) over (pair order by score_a) - (sum(n) over (pair_and_a) - 1) / 2 as rank_a,
        sum(n) over (pair order by score_b) - (sum(n) over (pair_and_b) - 1) / 2 as rank_b
    from everywhere
    window
        pair as (partition by judge_a, judge_b, benchmark),
        pair_and_a as (partition by judge_a, judge_b, benchmark, score_a),
        pair_and_b as (partition by judge_a, judge_b, benchmark, score_b)
),
centred as (
    select
        *,
        score_a - sum(n * score_a) over pair / sum(n) over pair as x,
        score_b - sum(n * score_b) over pair / sum(n) over pair as y,
        rank_a - (sum(n) over pair + 1) / 2 as u,
        rank_b - (sum(n) over pair + 1) / 2 as v
    from ranked
    window pair as (
        partition by judge_a, judge_b, benchmark
        order by score_a, score_b rows between unbounded preceding and unbounded following
    )
),
summed as (
    select
        judge_a, judge_b, benchmark,
        sum(n)::bigint as n,
        min(score_a) < max(score_a) and min(score_b) < max(score_b) as both_vary,
        sum(n * x * y order by score_a, score_b) as xy,
        sum(n * x * x order by score_a, score_b) as xx,
        sum(n * y * y order by score_a, score_b) as yy,
        sum(n * u * v order by score_a, score_b) as uv,
        sum(n * u * u order by score_a, score_b) as uu,
        sum(n * v * v order by score_a, score_b) as vv,
        sum(n * (score_a = score_b)::integer) as equal,
        sum(n * (score_a - score_b) order by score_a, score_b) as difference
    from centred
    group by all
)
select
    judge_a, judge_b, benchmark, n,
    case when both_vary then xy / sqrt(xx * yy) end as pearson,
    case when both_vary then uv / sqrt(uu * vv) end as spearman,
    equal / n as exact_share,
    difference / n as mean_difference
from summed;
