-- The imported judgements of some models, with all that was recorded of them.
from lake.judgements
where model between $first and $last
  and list_contains($models, model)
  and source_sha256 is not null
