-- The imported files of some models that stand for their place.
from lake.legacy_files
where model between $first and $last
  and list_contains($models, model)
  and kind in ('answers', 'judgements')
  and sha256 is not null
  and status <> 'replaced'
order by source, path
