-- One row per answer and judge; replaced judgements stay, with superseded = true.
create view judgements as
select * from lake.judgements;
