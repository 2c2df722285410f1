-- The mean score that each judge gave by month, over all models.
select
    judge, strftime(month, '%Y-%m') as month, sum(score * n_scored) / sum(n_scored) as score,
    sum(n_scored)::bigint as n_scored
from drift
where month is not null
  and n_scored > 0
group by all
order by judge, month
