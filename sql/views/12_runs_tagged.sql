-- runs_tagged(tags, sources): the runs with one of these tags, base tags, or tags of their import (which all trees share),
-- from one of these imported trees; null is any.
create macro runs_tagged(tags, sources) as table
select run_id
from lake.runs
where (tags is null or list_contains(tags, run_tag) or list_contains(tags, base_tag) or list_contains(tags, import_tag))
  and (sources is null or list_contains(sources, source));
