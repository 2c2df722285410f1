-- Calls, tokens and cost per run, stage, benchmark and called model; unknown tokens and prices are counted. Costs are
-- added up as decimals, so sums over any parts are the same to the last of 12 decimals.
create view token_usage as
select
    calls.run_id, runs.model, runs.run_tag, stage, benchmark, calls.model as called_model, base_url,
    count(*) as calls,
    count(*) filter (calls.status = 'error') as failed_calls,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(completion_tokens)::bigint as completion_tokens,
    sum(cached_tokens)::bigint as cached_tokens,
    sum(reasoning_tokens)::bigint as reasoning_tokens,
    count(*) filter (calls.status = 'ok' and (prompt_tokens is null or completion_tokens is null))
        as calls_without_usage,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    count(*) filter (calls.status = 'ok' and cost_usd is null) as calls_without_price,
    list_sort(
        list(distinct coalesce(price_source, 'genai-prices')) filter (calls.status = 'ok' and cost_usd is not null)
    ) as price_sources,
    min(calls.created_at) as first_call_at,
    max(calls.created_at) as last_call_at
from lake.calls
left join lake.runs using (run_id)
group by all;
