-- The last link of each imported judge, tree and new judge: a row per benchmark, and overall.
from links
qualify link_id = arg_max(link_id, created_at) over (partition by judge, source, linked_judge)
order by judge, source, linked_judge, benchmark
