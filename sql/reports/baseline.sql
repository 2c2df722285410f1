-- The rows of a baseline. Parameter: $baseline.
select * from baselines where name = $baseline
