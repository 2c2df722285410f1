-- How long answers of runs took on average, from request to reply.
select run_id, avg(latency_seconds) as seconds
from answers
where list_contains($run_ids, run_id)
group by run_id
