-- Replies that some runs rest on, answers and judgements, and those among them that are the reply to another one's call:
-- paid for once, and no evidence of their own.
with replies as (
    select run_id, benchmark, request_hash, status
    from answers
    union all
    select run_id, benchmark, request_hash, status
    from judgements
    where not superseded
      and strategy is null
      and ($judges is null or list_contains($judges, judge))
),
chosen as (
    from replies
    where list_contains($run_ids, run_id)
      and status = 'ok'
      and request_hash is not null
),
paid as (
    select distinct run_id, request_hash
    from calls
    where list_contains($run_ids, run_id)
      and status = 'ok'
),
-- Who made the call: the run itself, else one of the others, else a run that is not among them.
payers as (
    select request_hash, min(run_id) as payer
    from paid
    group by all
)
select
    benchmark, count(*) as n_replies,
    count(*) - count(distinct (if(paid.run_id is null, payer, run_id), request_hash)) as n_shared
from chosen
left join paid using (run_id, request_hash)
left join payers using (request_hash)
group by benchmark
order by benchmark
