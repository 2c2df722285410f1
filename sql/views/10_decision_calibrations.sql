-- How sure the history of each judge has to be before a decision stops, and what replayed decisions took.
create view decision_calibrations as
select * from lake.decision_calibrations;
