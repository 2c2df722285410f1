-- How far all judges together agree: Krippendorff's alpha for interval scores (1 is perfect, 0 is chance), over
-- answers that two judges or more have scored. Benchmark overall: all benchmarks together. Null: all scores are equal.
-- Krippendorff, Computing Krippendorff's Alpha-Reliability (2011): 1 - observed / expected squared difference, where
-- the differences within an answer weigh 1 / (its scores - 1).
create view judge_alpha as
with given as (
    select benchmark, unnest(scores).score as score, n_judges, model, question_id, answer_hash
    from scores_by_answer
    where n_judges > 1
),
everywhere as (
    from given
    union all by name
    from (select * replace ('overall' as benchmark), benchmark as of_benchmark from given)
),
-- The sum over all ordered pairs of (x - y)² is 2 (n Σx² - (Σx)²); deviations from the mean keep it exact. Each sum is
-- over sorted values, so that it has the same last bit each time.
centres as (
    select benchmark, avg(score order by score) as centre
    from everywhere
    group by benchmark
),
centred as (
    select everywhere.*, score - centre as x
    from everywhere
    join centres using (benchmark)
),
by_answer as (
    select
        benchmark, n_judges, sum(x order by x) as total, sum(x * x order by x) as squares,
        2 * (n_judges * squares - total ** 2) / (n_judges - 1) as observed
    from centred
    group by benchmark, of_benchmark, model, question_id, answer_hash, n_judges
)
select
    benchmark,
    1 - sum(observed order by observed) / nullif(
        2 * (sum(n_judges) * sum(squares order by squares) - sum(total order by total) ** 2) / (sum(n_judges) - 1), 0
    ) as alpha,
    count(*) as n_answers,
    sum(n_judges)::bigint as n_scores
from by_answer
group by benchmark;
