-- How often each judge of a run gave which score (whole numbers of its own scale), by benchmark.
select judge, benchmark, floor(score)::bigint as score, count(*) as n
from judgements
where run_id = $run_id
  and not superseded
  and strategy is null
  and score is not null
group by all
order by judge, benchmark, score
