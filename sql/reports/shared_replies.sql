-- Answers of some runs, and those among them that are the reply to another one's call: paid for once, and no evidence
-- of their own.
select benchmark, count(*) as n_answers, count(*) - count(distinct request_hash) as n_shared
from answers
where list_contains($run_ids, run_id)
  and status = 'ok'
  and request_hash is not null
group by benchmark
order by benchmark
