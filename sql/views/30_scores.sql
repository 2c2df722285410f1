-- A judgement's score under each pass pipeline; baseline is the judge's own score.
create view scores as
select * from lake.scores;
