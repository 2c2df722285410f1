-- What runs would cost at the prices of a date, per stage, benchmark and called model, beside what was recorded. Without
-- a date: at the price of each call's own date as the table prices has it now.
-- $run_id: run = null
-- $model: model or run = null
-- $tag: tag or base tag = null
-- $price_date = null
select
    run_id, runs.model, runs.run_tag, stage, benchmark, calls.model as called_model, base_url,
    count(*) as calls,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(completion_tokens)::bigint as completion_tokens,
    sum(recorded_cost_usd::decimal(38, 12))::double as recorded_cost_usd,
    sum(cost_usd::decimal(38, 12))::double as cost_usd,
    count(*) filter (calls.status = 'ok' and cost_usd is null) as calls_without_price,
    list_sort(list(distinct price_source) filter (price_source is not null)) as price_sources
from cost_at($price_date) as calls
left join runs using (run_id)
where ($run_id is null or run_id in (from named_runs($run_id)))
  and run_id in (from selected_runs(if($model is null, null, [$model]), if($tag is null, null, [$tag]), null))
group by all
order by run_id, stage, benchmark, called_model;
