-- All links, the newest first, overall after the benchmarks.
from links
where $judges is null or list_contains($judges, judge) or list_contains($judges, linked_judge)
order by max(created_at) over (partition by link_id) desc, link_id, benchmark = 'overall', benchmark
