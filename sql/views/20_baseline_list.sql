-- One row per baseline: the run that it was promoted from, what it covers, and for each strategy the share of questions
-- that it got right; a question without a verdict counts as wrong.
create view baseline_list as
with by_strategy as (
    select
        name, strategy, any_value(run_id) as run_id, any_value(model) as model, any_value(note) as note,
        max(created_at) as promoted_at,
        list(distinct benchmark order by benchmark) as datasets,
        count(distinct (benchmark, question_id)) as n_questions,
        count(*) - count(correct) as n_without_verdict,
        avg(coalesce(correct, false)::integer) as accuracy
    from lake.baselines
    group by name, strategy
)
select
    name, any_value(model) as model, any_value(run_id) as run_id,
    any_value(datasets) as datasets,
    list(strategy order by strategy <> 'single', strategy) as strategies,
    any_value(n_questions) as n_questions,
    sum(n_without_verdict)::bigint as n_without_verdict,
    map_from_entries(list((strategy, accuracy) order by strategy <> 'single', strategy)) as accuracy,
    max(promoted_at) as promoted_at,
    any_value(note) as note
from by_strategy
group by name
order by promoted_at, name;
