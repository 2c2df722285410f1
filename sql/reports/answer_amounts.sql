-- Tokens of the answers of runs, no matter who paid for them (null: of one they are not known), and how long one took on average.
select
    run_id, count(*) as answers, avg(latency_seconds) as seconds,
    case when count(*) = count(answer_completion_tokens) then sum(answer_completion_tokens)::bigint end as completion_tokens,
    case when count(*) = count(answer_reasoning_tokens) then sum(answer_reasoning_tokens)::bigint end as reasoning_tokens
from answers
where list_contains($run_ids, run_id)
  and status = 'ok'
group by run_id
