-- Named baselines: what a run got right when it was promoted, one row per dataset, strategy and question.
create view baselines as
select * from lake.baselines;
