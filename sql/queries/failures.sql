-- Failed and excluded samples by stage, run and class.
select 'answers' as stage, run_id, benchmark, null as judge, status, error_class, count(*) as n
from answers
where status <> 'ok'
group by all
union all by name
select 'judgements', run_id, benchmark, judge, status, error_class, count(*) as n
from judgements
where status <> 'ok' and not superseded
group by all
order by n desc;
