-- The table of prices, without when each was written.
select * exclude (created_at) from prices
