-- The runs with strategies, newest first: accuracy by strategy of the answers that rules grade; what they could not decide is wrong.
select
    run_id, any_value(results.model) as model, any_value(results.run_tag) as run_tag,
    coalesce(
        map_from_entries(list((strategy, accuracy) order by strategy) filter (accuracy is not null)), map {}
    ) as accuracies,
    any_value(created_at) as created_at
from (
    select
        run_id, model, run_tag, strategy,
        sum(n_correct) / nullif(sum(n_scored + n_undecided) filter (n_correct is not null), 0) as accuracy
    from ensemble_results
    group by all
) as results
join runs using (run_id)
group by run_id
order by created_at desc, run_id
