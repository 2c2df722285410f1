-- The runs with strategies, newest first: accuracy by strategy over all planned answers.
select
    run_id, any_value(results.model) as model, any_value(results.run_tag) as run_tag,
    map_from_entries(list((strategy, accuracy) order by strategy)) as accuracies,
    any_value(created_at) as created_at
from (
    select run_id, model, run_tag, strategy, sum(n_correct) / sum(n_planned) as accuracy
    from ensemble_results
    group by all
) as results
join runs using (run_id)
group by run_id
order by created_at desc, run_id
