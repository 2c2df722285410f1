-- Runs to look into, the newest first, the numbered runs of a tag as one: their identities in order, how many answers they
-- have, how many failed, and the mean over judges and runs. Where a run without a number has the same tag, they are TAG-run*.
with answered as (
    select
        run_id, count(*) as n_answers, count(*) filter (status = 'error') as n_failed,
        list_sort(list(distinct benchmark)) as benchmarks
    from answers
    where ($benchmark is null or benchmark = $benchmark)
    group by run_id
),
means as (
    select run_id, benchmark, avg(score) as score
    from leaderboard
    where pipeline = 'baseline'
      and strategy is null
      and ($benchmark is null or benchmark = $benchmark)
    group by all
),
overall as (
    select run_id, avg(score) as score
    from means
    group by run_id
),
chosen as (
    select *, bool_or(run_number is null) over (partition by model, base_tag) as has_single
    from runs
    join answered using (run_id)
    left join overall using (run_id)
    where run_id in (from selected_runs($models, $tags, $sources))
)
select
    model, if(count(*) = 1, any_value(run_tag), base_tag || if(any_value(has_single), '-run*', '')) as run_tag,
    coalesce(base_tag, any_value(run_tag)) as base_tag,
    list(run_id order by run_number, run_id) as run_ids, string_agg(distinct status, ', ' order by status) as status,
    list_sort(list_distinct(flatten(list(benchmarks)))) as benchmarks, sum(n_answers)::bigint as n_answers,
    sum(n_failed)::bigint as n_failed, avg(score) as score, max(created_at) as created_at
from chosen
group by model, base_tag, source, if(run_number is null, run_id, '')
order by created_at desc, model, run_tag
