-- Calls, tokens and cost per run × stage × benchmark × called model: as recorded, and at the prices of the calls' dates
-- as they are known now. Unknown prices are counted beside the sums, and sums without any price are null.
create view cost_by_stage as
select
    run_id, runs.model, runs.run_tag, stage, benchmark, calls.model as called_model, base_url,
    count(*) as calls,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(completion_tokens)::bigint as completion_tokens,
    sum(recorded_cost_usd::decimal(38, 12))::double as recorded_cost_usd,
    count(*) filter (calls.status = 'ok' and recorded_cost_usd is null) as calls_without_price,
    sum(cost_usd::decimal(38, 12))::double as repriced_cost_usd,
    count(*) filter (calls.status = 'ok' and cost_usd is null) as calls_without_repriced_cost
from repriced_calls as calls
left join lake.runs using (run_id)
group by all;
