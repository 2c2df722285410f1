-- run_statistics_of(n): the same as run_statistics, over the runs 1 to n of each multi-run.
create macro run_statistics_of(first_runs) as table
with every as (
    select *, case when coalesce(n_undecided, 0) > 0 then coalesce(score_upper, 1.0) else score end as upper
    from metrics
    where coalesce(run_number, 1) <= first_runs
    -- A run without a number is no part of the multi-run that was made under the same tag.
    qualify run_number is not null or max(run_number) over (partition by model, base_tag) is null
),
own as (
    from every
    where score is not null
),
-- Under strict a mean over benchmarks is not defined as soon as that of one of them is not.
undefined as (
    select distinct run_id, judge, pipeline, strategy, null_policy
    from every
    where score is null and null_policy = 'strict'
),
runs_overall as (
    select
        model, base_tag, run_tag, run_number, judge, pipeline, strategy, null_policy,
        'overall' as benchmark,
        avg(score order by benchmark) as score,
        avg(upper order by benchmark) as upper,
        -- What must be the same for all runs: questions, judge and passes, each with its version.
        list(
            {questions: question_set, prompt: judge_prompt_hash, judging: judge_config_hash, passes: pipeline_hash}
            order by question_set
        ) as versions
    from own
    where not exists (
        from undefined
        where undefined.run_id = own.run_id
          and undefined.judge = own.judge
          and undefined.pipeline = own.pipeline
          and undefined.strategy is not distinct from own.strategy
          and undefined.null_policy = own.null_policy
    )
    group by all
),
same_versions as (
    select model, base_tag, judge, pipeline, strategy, null_policy
    from runs_overall
    group by all
    having count(distinct versions) = 1
),
by_run as (
    select
        model, base_tag, run_tag, run_number, judge, pipeline, strategy, null_policy, benchmark, question_set, score, upper,
        judge_prompt_hash, judge_config_hash, pipeline_hash
    from own
    union all by name
    select runs_overall.* exclude (versions)
    from runs_overall
    where exists (
        from same_versions
        where same_versions.model = runs_overall.model
          and same_versions.base_tag = runs_overall.base_tag
          and same_versions.judge = runs_overall.judge
          and same_versions.pipeline = runs_overall.pipeline
          and same_versions.strategy is not distinct from runs_overall.strategy
          and same_versions.null_policy = runs_overall.null_policy
    )
)
select
    model, base_tag, judge, pipeline, strategy, null_policy, benchmark, question_set,
    count(*) as n_runs,
    avg(score order by run_number) as mean,
    stddev_samp(score order by run_number) as sd,
    min(score) as minimum,
    max(score) as maximum,
    list(score order by run_number) as values_by_run,
    judge_prompt_hash, judge_config_hash, pipeline_hash,
    avg(upper order by run_number) as mean_upper
from by_run
group by all;
