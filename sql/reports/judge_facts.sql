-- What each judge has judged, how lenient it is beside its peers, and how often it gave no score.
with given as (
    select
        judge, sum(n_judgements)::bigint as n_judgements, sum(n_scored)::bigint as n_scored,
        sum(n_without_score)::bigint as n_without_score, sum(n_out_of_scale)::bigint as n_out_of_scale
    from null_rates
    group by all
)
select given.*, mean_difference as leniency, sd, n_answers as n_shared_answers, mean_judges
from given
left join (from judge_leniency where benchmark = 'overall') using (judge)
order by judge
