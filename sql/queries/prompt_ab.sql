-- Two judges on the same answers, say with two prompts ($judge_a gpt-5.1, $judge_b gpt-5.1+strict): means on the
-- reported scale, change from a to b with the standard deviation of its answers, share of equal scores, Pearson and
-- Spearman (null where a judge gave one score only). An answer is a model, a question and a text; overall: all together.
-- $judge_a: judge
-- $judge_b: judge
-- $benchmark: benchmark or overall = null
with by_answer as (
    select
        benchmark, model, question_id, answer_hash,
        avg(reported_score) filter (judge = $judge_a) as a,
        avg(reported_score) filter (judge = $judge_b) as b
    from evidence
    where judge in ($judge_a, $judge_b)
      and answer_hash is not null
    group by all
),
everywhere as (
    select unnest([benchmark, 'overall']) as benchmark, a, b
    from by_answer
    where a is not null
      and b is not null
),
ranked as (
    select
        *,
        -- The mean rank of the tied.
        rank() over (partition by benchmark order by a) + (count(*) over (partition by benchmark, a) - 1) / 2 as rank_a,
        rank() over (partition by benchmark order by b) + (count(*) over (partition by benchmark, b) - 1) / 2 as rank_b
    from everywhere
)
select
    benchmark,
    count(*) as n,
    avg(a) as mean_a,
    avg(b) as mean_b,
    avg(b - a) as change,
    stddev_samp(b - a) as sd_change,
    avg((a = b)::integer) as exact_share,
    case when min(a) < max(a) and min(b) < max(b) then corr(a, b) end as pearson,
    case when min(a) < max(a) and min(b) < max(b) then corr(rank_a, rank_b) end as spearman
from ranked
where ($benchmark is null or benchmark = $benchmark)
group by benchmark
order by benchmark = 'overall', benchmark;
