-- Specs of runs that keep what a plugin's benchmark is, the latest last.
select spec from runs where contains(spec, '"entry":') order by updated_at;
