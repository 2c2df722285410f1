-- One row per answer and judge; replaced judgements and failures stay, with superseded = true and superseded_at.
create view judgements as
select * from lake.judgements;
