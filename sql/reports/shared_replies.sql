-- Replies that some runs rest on, answers and judgements, and those among them that are the reply to another one's call:
-- paid for once, and no evidence of their own.
select benchmark, count(*) as n_replies, count(*) - count(distinct request_hash) as n_shared
from (
    select run_id, benchmark, request_hash, status
    from answers
    union all
    select run_id, benchmark, request_hash, status
    from judgements
    where not superseded
      and strategy is null
      and ($judges is null or list_contains($judges, judge))
)
where list_contains($run_ids, run_id)
  and status = 'ok'
  and request_hash is not null
group by benchmark
order by benchmark
