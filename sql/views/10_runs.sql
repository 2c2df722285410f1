-- One row per run (model × run tag) with its RunSpec as JSON, status, times and code version.
create view runs as
select * from lake.runs;
