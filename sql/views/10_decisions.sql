-- Decisions between models: who is better on which questions, how many it took, and what that cost.
create view decisions as
select * from lake.decisions;
