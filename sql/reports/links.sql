-- Links, the newest first, overall after the benchmarks. $last: only the last one of each imported judge, tree and new judge.
from links
where $judges is null or list_contains($judges, judge) or list_contains($judges, linked_judge)
qualify $last is null or link_id = arg_max(link_id, created_at) over (partition by judge, source, linked_judge)
order by max(created_at) over (partition by link_id) desc, link_id, benchmark = 'overall', benchmark
