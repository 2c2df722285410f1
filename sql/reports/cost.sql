-- Calls, tokens and cost of runs by stage and benchmark.
select
    model, run_tag, stage, benchmark, sum(calls)::bigint as calls,
    sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as completion_tokens,
    sum(cost_usd::decimal(38, 12))::double as cost_usd, sum(calls_without_price)::bigint as calls_without_price
from token_usage
where ($models is null or list_contains($models, model))
  and ($tags is null or list_contains($tags, run_tag))
group by all
order by model, run_tag, stage, benchmark
