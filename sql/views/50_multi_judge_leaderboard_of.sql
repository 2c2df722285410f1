-- multi_judge_leaderboard_of(models, tags := null, policy := 'legacy', only_judges := null): a list of models compared
-- over what all of them have: mean of the means of the shared judges per benchmark, and overall (the unweighted mean of
-- the shared benchmarks), best first. A judge is shared if it scored all of them over the same questions, with the
-- same prompt and the same settings of passes; of a set of which only the first questions were asked, they are others.
-- Of each model those runs (with one of the tags) count that have most scores by judge and question set, and of these
-- those that were limited in fewest; n_runs is how many share.
create macro multi_judge_leaderboard_of(models, tags := null, policy := 'legacy', only_judges := null) as table
with asked as (
    select
        *,
        count(*) over own_cells as n_cells,
        count(n_asked) over own_cells as n_limited
    from current_metrics
    left join limited_sets using (run_id, benchmark, question_set)
    where null_policy = policy
      and score is not null
      and list_contains(models, model)
      and (tags is null or list_contains(tags, run_tag) or run_id in (from selected_runs(null, tags, null)))
      and (only_judges is null or list_contains(only_judges, judge))
    window own_cells as (partition by run_id, pipeline, strategy)
),
fullest as (
    from asked
    qualify n_cells = max(n_cells) over (partition by model, pipeline, strategy)
),
compared as (
    from fullest
    qualify n_limited = min(n_limited) over (partition by model, pipeline, strategy)
),
own as (
    select
        *,
        count(distinct run_id) over (partition by pipeline, strategy) as n_runs,
        count(*) over (
            partition by pipeline, strategy, benchmark, question_set, n_asked, judge, judge_prompt, pipeline_hash
        ) as n_sharing
    from compared
),
by_benchmark as (
    select
        model, run_tag, run_id, benchmark, pipeline, strategy,
        avg(score order by judge) as score,
        avg(score_upper order by judge) as score_upper,
        list(judge order by judge) as judges,
        [question_set] as question_sets,
        sum(n_planned)::bigint as n_planned, sum(n_scored)::bigint as n_scored,
        sum(n_failed)::bigint as n_failed, sum(n_undecided)::bigint as n_undecided, sum(n_excluded)::bigint as n_excluded,
        n_runs
    from own
    where n_sharing = n_runs
    group by model, run_tag, run_id, benchmark, question_set, pipeline, strategy, n_runs
),
overall as (
    select
        model, run_tag, run_id, 'overall' as benchmark, pipeline, strategy,
        avg(score order by benchmark) as score,
        avg(score_upper order by benchmark) as score_upper,
        list_sort(list_distinct(flatten(list(judges)))) as judges,
        list_sort(flatten(list(question_sets))) as question_sets,
        sum(n_planned)::bigint as n_planned, sum(n_scored)::bigint as n_scored,
        sum(n_failed)::bigint as n_failed, sum(n_undecided)::bigint as n_undecided, sum(n_excluded)::bigint as n_excluded,
        any_value(n_runs) as n_runs
    from by_benchmark
    group by all
)
select *
from (from by_benchmark union all by name from overall)
order by benchmark = 'overall' desc, benchmark, question_sets, pipeline, strategy, score desc, model, run_tag;
