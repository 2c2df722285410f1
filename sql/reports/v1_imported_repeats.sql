-- Which lines of imported files of some models repeat others.
from lake.legacy_repeats
where run_id in (select run_id from lake.runs where model between $first and $last and list_contains($models, model))
