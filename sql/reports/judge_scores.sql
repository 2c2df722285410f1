-- How often each judge gave which score (whole numbers of the reported scale), over plain answers without passes.
select judge, floor(score)::bigint as score, count(*) as n
from reported_scores
where pipeline = 'baseline'
  and strategy is null
  and score is not null
group by judge, floor(score)
order by judge, score
