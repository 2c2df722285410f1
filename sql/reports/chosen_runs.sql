-- The runs of a choice, and whether they have answers of strategies. Parameters: those of `selected_runs`.
select run_id, run_tag, base_tag, run_number, run_id in (select run_id from consensus) as has_strategies
from runs
where run_id in (from selected_runs($models, $tags, $sources))
order by run_number, run_tag
