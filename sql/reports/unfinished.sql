-- Of some runs the benchmarks that are not complete, a row for each part of them that failed (answers, or judgements by
-- judge), else one with an empty `who`; what decisions asked is not meant to be complete.
with unfinished as (
    select
        run_id, model, run_tag,
        coalesce(
            nullif(from_json(if(json_valid(status_by_benchmark), status_by_benchmark, null), '"MAP(VARCHAR, VARCHAR)"')::map(varchar, varchar), map {}),
            map {'': status}
        ).map_entries() as states
    from runs
    where status not in ('complete', 'decision')
      and run_id in (from selected_runs($models, $tags, $sources))
      and ($first_runs is null or run_number <= $first_runs)
),
by_benchmark as (
    select run_id, model, run_tag, unnest(states) as entry, generate_subscripts(states, 1) as place
    from unfinished
),
failed as (
    select metrics.run_id, metrics.benchmark, 'judge ' || metrics.judge as who, n_planned, n_failed, classes
    from metrics
    left join (
        select run_id, benchmark, judge, histogram(coalesce(error_class, status)) as classes
        from scores
        where run_id in (select run_id from unfinished)
          and pipeline = 'baseline'
          and strategy is null
          and status not in ('ok', 'excluded')
        group by all
    ) as failures using (run_id, benchmark, judge)
    where metrics.run_id in (select run_id from unfinished)
      and pipeline = 'baseline'
      and strategy is null
      and null_policy = 'legacy'
      and n_failed > 0
      and ($judges is null or list_contains($judges, metrics.judge))
    union all
    select
        run_id, benchmark, 'answers' as who, count(*) as n_planned, count(*) filter (failed) as n_failed,
        histogram(error_class) filter (failed) as classes
    -- An empty answer is excluded, which is no failure.
    from (select *, status = 'error' and error_class is distinct from 'empty_answer' as failed from answers)
    where run_id in (select run_id from unfinished)
    group by all
    having n_failed > 0
)
select
    model, run_tag, entry.key as benchmark, entry.value as state, coalesce(who, '') as who,
    coalesce(n_planned, 0) as n_planned, coalesce(n_failed, 0) as n_failed, coalesce(classes, map {}) as classes
from by_benchmark
left join failed on by_benchmark.run_id = failed.run_id and entry.key = failed.benchmark
where entry.value <> 'complete'
  -- A part of judges that are not asked for is not said.
  and ($judges is null or who is not null or entry.value <> 'partial')
order by model, run_tag, place, who
