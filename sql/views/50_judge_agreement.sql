-- How far two judges agree on the same answers (same model, question and answer text): Pearson and Spearman
-- correlation (ties get their mean rank), share of equal scores, mean difference judge_a - judge_b on the reported
-- scale, n answers. Benchmark overall: all benchmarks together. Correlation null: one judge gave one score only.
create view judge_agreement as
with given as (
    select benchmark, unnest(scores) as a, scores
    from scores_by_answer
    where n_judges > 1
),
pairs as (
    select benchmark, a, unnest(scores) as b
    from given
),
-- Scores are few different numbers: counted once, the pairs of a million answers are some thousand rows.
counted as (
    select a.judge as judge_a, b.judge as judge_b, benchmark, a.score as score_a, b.score as score_b, count(*) as n
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
    window pair as (partition by judge_a, judge_b, benchmark)
)
select
    judge_a, judge_b, benchmark,
    sum(n)::bigint as n,
    case when min(score_a) < max(score_a) and min(score_b) < max(score_b)
        then sum(n * x * y) / sqrt(sum(n * x * x) * sum(n * y * y)) end as pearson,
    case when min(score_a) < max(score_a) and min(score_b) < max(score_b)
        then sum(n * u * v) / sqrt(sum(n * u * u) * sum(n * v * v)) end as spearman,
    sum(n * (score_a = score_b)::integer) / sum(n) as exact_share,
    sum(n * (score_a - score_b)) / sum(n) as mean_difference
from centred
group by all;
