-- Runs to look into, the newest first: how many answers each has, how many failed, and its mean over judges.
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
)
select run_id, model, run_tag, status, benchmarks, n_answers, n_failed, score, created_at
from runs
join answered using (run_id)
left join overall using (run_id)
where run_id in (from selected_runs($models, $tags, $sources))
order by created_at desc, run_id
