-- How often each judge gave which score (whole numbers of the reported scale), over plain answers without passes.
select judge, floor(reported_score)::bigint as score, count(*) as n
from evidence
where strategy is null
  and reported_score is not null
group by judge, floor(reported_score)
order by judge, score
