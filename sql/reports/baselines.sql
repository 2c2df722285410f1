-- All baselines, oldest first.
from baseline_list order by promoted_at, name
