-- The imported runs of some models.
select run_id, model, run_tag, import_tag, source
from lake.runs
where model between $first and $last
  and list_contains($models, model)
  and import_tag is not null
