-- chosen_runs(models, tags, sources): the runs of some models, under some tags (their own, that of their repetitions, or the
-- one that they were imported under, which all trees share) and from some trees; null is any.
create macro chosen_runs(models, tags, sources) as table
select run_id
from lake.runs
where (models is null or list_contains(models, model))
  and (
      tags is null or list_contains(tags, run_tag) or list_contains(tags, base_tag)
      or (source is not null and list_contains(tags, import_tag))
  )
  and (sources is null or list_contains(sources, source));
