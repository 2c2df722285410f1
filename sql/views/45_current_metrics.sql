-- The roll-up of scores of the runs that leaderboards are of: all but imported runs whose answers others have replaced.
create view current_metrics as
select * from lake.metrics
anti join (select run_id from lake.runs where superseded_by is not null) using (run_id);
