-- run_statistics_of(n): the same as run_statistics, over the runs 1 to n of each multi-run.
create macro run_statistics_of(first_runs) as table
with runs_overall as (
    select
        model, base_tag, run_tag, run_number, judge, pipeline, strategy, null_policy,
        'overall' as benchmark,
        avg(score) as score,
        list(benchmark order by benchmark) as benchmarks
    from lake.metrics
    where score is not null and coalesce(run_number, 1) <= first_runs
    group by all
),
same_benchmarks as (
    select model, base_tag, judge, pipeline, strategy, null_policy
    from runs_overall
    group by all
    having count(distinct benchmarks) = 1
),
by_run as (
    select model, base_tag, run_tag, run_number, judge, pipeline, strategy, null_policy, benchmark, question_set, score
    from lake.metrics
    where score is not null and coalesce(run_number, 1) <= first_runs
    union all by name
    select runs_overall.* exclude (benchmarks), null as question_set
    from runs_overall
    where exists (
        from same_benchmarks
        where same_benchmarks.model = runs_overall.model
          and same_benchmarks.base_tag = runs_overall.base_tag
          and same_benchmarks.judge = runs_overall.judge
          and same_benchmarks.pipeline = runs_overall.pipeline
          and same_benchmarks.strategy is not distinct from runs_overall.strategy
          and same_benchmarks.null_policy = runs_overall.null_policy
    )
)
select
    model, base_tag, judge, pipeline, strategy, null_policy, benchmark, question_set,
    count(*) as n_runs,
    avg(score) as mean,
    stddev_samp(score) as sd,
    min(score) as minimum,
    max(score) as maximum,
    list(score order by run_number) as values_by_run
from by_run
group by all;
