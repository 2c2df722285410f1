-- The runs of a choice, also those that only have scores, in the order of their numbers; and whether they have scores, and
-- answers of strategies. Parameters: those of `selected_runs`.
select
    run_id, coalesce(runs.model, scored.model) as model, coalesce(runs.run_tag, scored.run_tag) as run_tag,
    coalesce(runs.base_tag, scored.base_tag) as base_tag, coalesce(runs.run_number, scored.run_number) as run_number,
    import_tag, source, scored.model is not null as has_scores, run_id in (select run_id from consensus) as has_strategies
from runs
full join (select distinct run_id, model, run_tag, base_tag, run_number from metrics) as scored using (run_id)
where $models is null and $tags is null and $sources is null or run_id in (from selected_runs($models, $tags, $sources))
order by run_number, run_tag, run_id
