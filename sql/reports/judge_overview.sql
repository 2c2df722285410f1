-- All judges: what each has judged, how lenient it is beside its peers and how often it gave no score (facts), and how far
-- each two agree on all answers that both scored (pairs). Patterns are made once for both. Sums over many answers have no
-- fixed order: without their last digits they are the same each time.
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
)
select
    coalesce((select list(facts order by judge) from facts), []) as facts,
    coalesce((select list(pairs order by judge_a, judge_b) from pairs), []) as pairs
