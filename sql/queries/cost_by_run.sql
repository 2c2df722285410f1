-- Calls, tokens and cost of each run in US dollars, dearest first; calls without a known price are counted beside.
select
    run_id, model, run_tag,
    sum(calls)::bigint as calls,
    sum(failed_calls)::bigint as failed_calls,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(completion_tokens)::bigint as completion_tokens,
    sum(calls_without_usage)::bigint as calls_without_usage,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    sum(cost_usd::decimal(38, 12)) filter (stage = 'answers')::double as cost_usd_of_answers,
    sum(cost_usd::decimal(38, 12)) filter (stage = 'judgements')::double as cost_usd_of_judgements,
    sum(cost_usd::decimal(38, 12)) filter (stage not in ('answers', 'judgements'))::double as cost_usd_of_other_stages,
    sum(calls_without_price)::bigint as calls_without_price
from token_usage
group by all
order by cost_usd desc nulls last, run_id;
