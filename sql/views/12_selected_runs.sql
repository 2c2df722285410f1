-- selected_runs(models, tags, sources): the runs of one of these models, with one of these tags, base tags or tags of
-- their import, from one of these trees; null is any.
create macro selected_runs(models, tags, sources) as table
select run_id
from lake.runs
where (models is null or list_contains(models, model))
  and (
      tags is null or list_contains(tags, run_tag) or list_contains(tags, base_tag)
      or (source is not null and list_contains(tags, import_tag))
  )
  and (sources is null or list_contains(sources, source));
