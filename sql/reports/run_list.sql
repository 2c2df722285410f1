-- All runs, newest first; a run by its id, else by its model and tag as MODEL@@TAG; or those that $models names.
select
    run_id, model, run_tag, status, created_at, updated_at, finished_at, source, superseded_by, spec,
    status_by_benchmark, max_cost_usd, not_sent
from runs
where ($text is null or contains(lower(model), lower($text)) or contains(lower(run_tag), lower($text)))
  and ($run_id is null or $run_id in (run_id, model || '@@' || run_tag))
  and ($models is null or run_id in (from selected_runs($models, null, null)))
order by coalesce(run_id = $run_id, false) desc, updated_at desc, run_id
