-- For every set of two judges or more that some run has, the runs that have all of them: mean of the judges' means per
-- benchmark, and overall (the unweighted mean of all the run's benchmarks). Rows compare within the same judges,
-- judge_prompt_hashes (by question set and judge; `not recorded in TREE` where a tree does not say), asked (the question sets, with
-- how many of their questions were asked where that is not all), pipeline, pipeline_hash and strategy, which is what rank and n_runs are over; policy legacy.
-- rank is null where what rules could not decide (wrong in score, left out of score_upper) would change it.
create view multi_judge_leaderboard as
with own as (
    select
        *,
        count(distinct question_set) over (partition by run_id, pipeline, strategy) as n_question_sets,
        concat(question_set, ', ' || n_asked || ' asked') as questions
    from current_metrics
    left join limited_sets using (run_id, benchmark, question_set)
    where null_policy = 'legacy'
      and score is not null
),
by_run as (
    select
        model, run_tag, run_id, benchmark, question_set, questions, pipeline, pipeline_hash, strategy, n_question_sets,
        n_planned,
        list({judge: judge, prompt: judge_prompt} order by judge) as own_judges,
        list({
            judge: judge, score: score, upper: score_upper,
            scored: n_scored, failed: n_failed, undecided: n_undecided, excluded: n_excluded
        }) as own_scores
    from own
    group by all
    having count(*) > 1
),
judge_sets as (
    select distinct benchmark, question_set, pipeline, pipeline_hash, strategy, own_judges as shared
    from by_run
),
by_benchmark as (
    select
        model, run_tag, run_id, by_run.benchmark, by_run.pipeline, by_run.pipeline_hash, by_run.strategy,
        list_transform(shared, lambda one: one.judge) as judges,
        list_transform(shared, lambda one: one.prompt) as judge_prompt_hashes,
        [by_run.question_set] as question_sets,
        [questions] as asked,
        n_question_sets,
        n_planned * len(judges) as n_planned,
        list_filter(own_scores, lambda one: list_contains(judges, one.judge)) as counted
    from by_run
    join judge_sets
      on by_run.benchmark = judge_sets.benchmark
     and by_run.question_set = judge_sets.question_set
     and by_run.pipeline = judge_sets.pipeline
     and by_run.pipeline_hash is not distinct from judge_sets.pipeline_hash
     and by_run.strategy is not distinct from judge_sets.strategy
     and list_has_all(own_judges, shared)
),
with_counts as (
    select
        * exclude (counted),
        list_avg(list_transform(counted, lambda one: one.score)) as score,
        list_avg(list_transform(counted, lambda one: one.upper)) as score_upper,
        list_sum(list_transform(counted, lambda one: one.scored))::bigint as n_scored,
        list_sum(list_transform(counted, lambda one: one.failed))::bigint as n_failed,
        list_sum(list_transform(counted, lambda one: one.undecided))::bigint as n_undecided,
        list_sum(list_transform(counted, lambda one: one.excluded))::bigint as n_excluded
    from by_benchmark
),
overall as (
    select
        model, run_tag, run_id, 'overall' as benchmark, pipeline, pipeline_hash, strategy, judges,
        flatten(list(judge_prompt_hashes order by question_sets)) as judge_prompt_hashes,
        list_sort(flatten(list(question_sets))) as question_sets,
        list_sort(flatten(list(asked))) as asked,
        avg(score order by benchmark) as score,
        avg(score_upper order by benchmark) as score_upper,
        sum(n_planned)::bigint as n_planned, sum(n_scored)::bigint as n_scored,
        sum(n_failed)::bigint as n_failed, sum(n_undecided)::bigint as n_undecided, sum(n_excluded)::bigint as n_excluded
    from with_counts
    group by model, run_tag, run_id, pipeline, pipeline_hash, strategy, judges, n_question_sets
    having count(*) = n_question_sets
)
select
    judges, benchmark, question_sets, pipeline, strategy,
    case when rank() over (compared order by score desc) = rank() over (compared order by score_upper desc)
        then rank() over (compared order by score desc) end as rank,
    model, run_tag, score, score_upper, n_planned, n_scored, n_failed, n_undecided, n_excluded,
    count(*) over compared as n_runs,
    run_id, judge_prompt_hashes, pipeline_hash, asked
from (from with_counts union all by name from overall)
window compared as (
    partition by judges, judge_prompt_hashes, benchmark, asked, pipeline, pipeline_hash, strategy
);
