-- Runs of a model, and whether they have answers of strategies. Parameters: $model, $tag (null: any).
select run_id, run_tag, run_id in (select run_id from consensus) as has_strategies
from runs
where model = $model and ($tag is null or run_tag = $tag)
order by run_tag
