-- Calls, tokens and cost of each person's runs in US dollars, dearest first; who made a run is its created_by.
-- $since = null
select
    coalesce(runs.created_by, 'unknown') as person,
    count(distinct run_id) as runs,
    sum(calls)::bigint as calls,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(completion_tokens)::bigint as completion_tokens,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    sum(calls_without_price)::bigint as calls_without_price
from token_usage
join runs using (run_id)
where $since is null or runs.created_at >= $since::timestamptz
group by all
order by cost_usd desc nulls last, person;
