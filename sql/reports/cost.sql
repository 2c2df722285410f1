-- Calls, tokens and cost of runs by stage and benchmark; those of audits are of no run.
select
    coalesce(model, run_id) as model, coalesce(run_tag, 'of verdicts') as run_tag, stage, coalesce(benchmark, '') as benchmark, sum(calls)::bigint as calls,
    sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as completion_tokens,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    sum(cached_tokens)::bigint as cached_tokens, sum(reasoning_tokens)::bigint as reasoning_tokens,
    sum(calls_without_usage)::bigint as calls_without_usage, sum(calls_without_price)::bigint as calls_without_price,
    list_sort(list_distinct(flatten(list(price_sources)))) as price_sources,
    strftime(min(first_call_at), '%Y-%m-%d') as first_day, strftime(max(last_call_at), '%Y-%m-%d') as last_day
from token_usage
where ($run_ids is null or list_contains($run_ids, run_id))
  and (
      $models is null and $tags is null and $sources is null
      or run_id in (from selected_runs($models, $tags, $sources))
  )
group by all
order by model, run_tag, stage, benchmark
