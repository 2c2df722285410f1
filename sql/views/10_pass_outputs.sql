-- What each pass found in each answer: severity, reason, measures and spans; the deltas are in scores.
create view pass_outputs as
select * from lake.pass_outputs;
