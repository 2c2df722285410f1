-- imported_runs(tags, sources): the runs that were imported under one of these tags, which all trees share, and from one
-- of these trees; null is any.
create macro imported_runs(tags, sources) as table
select run_id
from lake.runs
where source is not null
  and (tags is null or list_contains(tags, import_tag))
  and (sources is null or list_contains(sources, source));
