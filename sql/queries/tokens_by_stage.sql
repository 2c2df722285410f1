-- Calls, tokens and cost per run and stage.
select
    run_id, stage,
    sum(calls) as calls,
    sum(failed_calls) as failed_calls,
    sum(prompt_tokens) as prompt_tokens,
    sum(completion_tokens) as completion_tokens,
    sum(calls_without_usage) as calls_without_usage,
    sum(cost_usd) as cost_usd,
    sum(calls_without_price) as calls_without_price
from token_usage
group by all
order by run_id, stage;
