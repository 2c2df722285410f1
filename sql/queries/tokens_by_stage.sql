-- Calls, tokens and cost per run, stage and benchmark; calls without known tokens or price are counted beside.
select
    run_id, stage, benchmark,
    sum(calls)::bigint as calls,
    sum(failed_calls)::bigint as failed_calls,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(completion_tokens)::bigint as completion_tokens,
    sum(cached_tokens)::bigint as cached_tokens,
    sum(reasoning_tokens)::bigint as reasoning_tokens,
    sum(calls_without_usage)::bigint as calls_without_usage,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    sum(calls_without_price)::bigint as calls_without_price
from token_usage
group by all
order by run_id, stage, benchmark;
