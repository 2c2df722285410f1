-- Score distribution of each judge: whole numbers of the reported scale, with their share of its judgements, over plain
-- answers without passes.
select judge, floor(reported_score)::bigint as score, count(*) / sum(count(*)) over (partition by judge) as share
from evidence
where strategy is null
  and reported_score is not null
group by judge, floor(reported_score)
order by judge, score
