-- One row per sample of a question by a run; failures are rows with a status and a class.
create view answers as
select * from lake.answers;
