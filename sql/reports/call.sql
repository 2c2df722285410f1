-- A call by its identity, as each run has it, texts up to $most characters.
select
    request_hash, run_id, stage, benchmark, question_id, purpose, model, base_url, status, error_class, error_message,
    left(content, $most) as content, coalesce(length(content), 0) as content_length, left(reasoning, $most) as reasoning,
    finish_reason, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cost_usd, price_source, attempts,
    latency_seconds, refusal, tool_calls, created_at
from calls
where request_hash = $request_hash
order by created_at
limit 20
