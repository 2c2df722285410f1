-- The curve of each decision: estimate and interval of every pair after each look.
create view decision_looks as
select * from lake.decision_looks;
