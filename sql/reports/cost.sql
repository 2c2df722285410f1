-- Calls, tokens and cost of runs by stage and benchmark; those of audits are of no run. Calls have the price that is known
-- now ($prices, rows in JSON; null: the table prices), else that which was recorded with them.
with priced as (
    select
        calls.* exclude (cost_usd, price_source),
        coalesce(cost_usd, recorded_cost_usd) as cost_usd,
        if(cost_usd is null, coalesce(recorded_price_source, 'genai-prices'), price_source) as price_source,
        cost_usd is null and recorded_cost_usd is not null as is_recorded
    from cost_at(null, price_list := $prices) as calls
    where ($run_ids is null or list_contains($run_ids, run_id))
      and (
          $models is null and $tags is null and $sources is null
          or run_id in (from selected_runs($models, $tags, $sources))
      )
)
select
    coalesce(runs.model, run_id) as model, coalesce(run_tag, 'of verdicts') as run_tag, stage,
    coalesce(benchmark, '') as benchmark, count(*) as calls,
    sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as completion_tokens,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    sum(cached_tokens)::bigint as cached_tokens, sum(reasoning_tokens)::bigint as reasoning_tokens,
    count(*) filter (priced.status = 'ok' and (prompt_tokens is null or completion_tokens is null))
        as calls_without_usage,
    count(*) filter (priced.status = 'ok' and cost_usd is null) as calls_without_price,
    count(*) filter (priced.status = 'ok' and is_recorded) as calls_at_recorded_price,
    coalesce(list_sort(list(distinct priced.model) filter (priced.status = 'ok' and cost_usd is null)), [])
        as models_without_price,
    coalesce(list_sort(list(distinct price_source) filter (priced.status = 'ok' and cost_usd is not null)), [])
        as price_sources,
    strftime(min(priced.created_at), '%Y-%m-%d') as first_day, strftime(max(priced.created_at), '%Y-%m-%d') as last_day
from priced
left join (select run_id, model, run_tag from runs) as runs using (run_id)
group by all
order by model, run_tag, stage, benchmark
