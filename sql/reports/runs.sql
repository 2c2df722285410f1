-- All runs, newest first; a run by its id, else by its model and tag as MODEL@@TAG; those that $models or $run_ids name; or
-- those that keep what a plugin's benchmark is ($with_entries).
select
    run_id, model, run_tag, status, created_at, updated_at, finished_at, source, superseded_by, spec,
    status_by_benchmark, max_cost_usd, not_sent
from runs
where ($text is null or contains(lower(model), lower($text)) or contains(lower(run_tag), lower($text)))
  and ($run_id is null or $run_id in (run_id, model || '@@' || run_tag))
  and ($run_ids is null or list_contains($run_ids, run_id))
  and ($models is null or run_id in (from selected_runs($models, null, null)))
  and ($with_entries is null or contains(spec, '"entry":'))
order by coalesce(run_id = $run_id, false) desc, updated_at desc, run_id
