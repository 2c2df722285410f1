-- The roll-up of scores per run, judge, benchmark, pipeline and null policy.
create view metrics as
select * from lake.metrics;
