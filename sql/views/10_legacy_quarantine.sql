-- Lines of imported legacy files that could not become rows, with the reason.
create view legacy_quarantine as
select * from lake.legacy_quarantine;
