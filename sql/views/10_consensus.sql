-- One row per question and strategy: the answer that it made of a run's samples; single is one answer as it is.
create view consensus as
select * from lake.consensus;
