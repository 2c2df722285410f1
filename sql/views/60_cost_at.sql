-- Every call with what it would cost at the prices of a date (null: of the call's own date), as the table prices has them
-- now, or as price_list (its rows in JSON) does: cost_at('2026-07-01'). Hours and prompt lengths on which a price depends are the call's own. Null is unknown.
create macro cost_at(price_date, price_list := null) as table
with known_prices as (
    select * exclude (created_at) from lake.prices where price_list is null
    union all by name
    select price.*
    from (
        select unnest(from_json(coalesce(price_list, '[]')::json, '[{
            "model": "VARCHAR", "base_url": "VARCHAR", "valid_from": "TIMESTAMPTZ", "valid_to": "TIMESTAMPTZ",
            "day_seconds_from": "BIGINT", "day_seconds_to": "BIGINT",
            "prompt_tokens_from": "BIGINT", "prompt_tokens_to": "BIGINT",
            "input_usd_per_million": "DOUBLE", "output_usd_per_million": "DOUBLE",
            "cached_usd_per_million": "DOUBLE", "usd_per_call": "DOUBLE", "source": "VARCHAR"
        }]')) as price
    )
),
asked as (
    select
        * exclude (content, reasoning, error_message, cost_usd, price_source),
        cost_usd as recorded_cost_usd,
        price_source as recorded_price_source,
        -- Without time zones, so that any client gets the same.
        coalesce(price_date::timestamp, make_timestamp(epoch_us(created_at))) as priced_at,
        epoch_us(created_at) % 86400000000 / 1e6 as day_second,
        coalesce(cached_tokens, 0) as cached
    from lake.calls
),
priced as (
    select
        asked.* exclude (day_second, cached),
        case
            when prices.source = 'embedded' then 0.0::double
            when cached between 0 and prompt_tokens and completion_tokens >= 0 then
                (
                    (prompt_tokens - cached) * input_usd_per_million
                    + cached * cached_usd_per_million
                    + completion_tokens * output_usd_per_million
                ) / 1e6 + usd_per_call
        end as cost_usd,
        prices.source
    from asked
    left join known_prices as prices
      on asked.model = prices.model
     and asked.base_url = prices.base_url
     and (valid_from is null or make_timestamp(epoch_us(valid_from)) <= priced_at)
     and (valid_to is null or priced_at < make_timestamp(epoch_us(valid_to)))
     and day_second >= day_seconds_from
     and day_second < day_seconds_to
     and coalesce(prompt_tokens, 0) >= prompt_tokens_from
     and (prompt_tokens_to is null or coalesce(prompt_tokens, 0) < prompt_tokens_to)
)
select
    * exclude (source),
    case when cost_usd is not null then source end as price_source
from priced;
