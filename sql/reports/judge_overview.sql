-- All judges: what each has judged, how lenient it is beside its peers and how often it gave no score (facts), how far
-- each two agree on all answers that both scored (pairs), which share of its judgements has which score, rounded down, on
-- the reported scale (shares), and its mean score by month, over all models (drift). Patterns are made once for the first
-- two. Sums over many answers have no fixed order: without their last digits they are the same each time.
with patterns as materialized (
    from score_patterns
),
given as (
    select
        judge, sum(n_judgements)::bigint as n_judgements, sum(n_scored)::bigint as n_scored,
        sum(n_without_score)::bigint as n_without_score, sum(n_out_of_scale)::bigint as n_out_of_scale
    from null_rates
    group by all
),
facts as (
    select given.*, mean_difference as leniency, sd, n_answers as n_shared_answers, mean_judges
    from given
    left join (from judge_leniency_of('patterns') where benchmark = 'overall') using (judge)
),
pairs as (
    select
        judge_a, judge_b, n, round(pearson, 6) as pearson, round(spearman, 6) as spearman, exact_share,
        round(mean_difference, 6) as mean_difference
    from judge_agreement_of('patterns')
    where benchmark = 'overall'
),
shares as (
    select judge, floor(reported_score)::bigint as score, count(*) / sum(count(*)) over (partition by judge) as share
    from evidence
    where strategy is null
      and reported_score is not null
    group by judge, floor(reported_score)
),
by_month as (
    select
        judge, strftime(month, '%Y-%m') as month, sum(score * n_scored) / sum(n_scored) as score,
        sum(n_scored)::bigint as n_scored
    from drift
    where month is not null
      and n_scored > 0
    group by all
)
select
    coalesce((select list(facts order by judge) from facts), []) as facts,
    coalesce((select list(pairs order by judge_a, judge_b) from pairs), []) as pairs,
    coalesce((select list(shares order by judge, score) from shares), []) as shares,
    coalesce((select list(by_month order by judge, month) from by_month), []) as drift
