-- How the number of calls that each endpoint was asked at once moved, with the cause.
create view limit_changes as
select * from lake.limit_changes;
