-- Rows of legacy files that another file had said already, and what they repeat.
create view legacy_repeats as
select * from lake.legacy_repeats;
