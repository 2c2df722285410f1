-- The runs of each model under each judge, scores side by side: reported-scale scores by question set under the
-- policy legacy, their unweighted mean, and the denominators over all of them.
create view runs_of_model as
with by_run as (
    select
        model, base_tag, run_number, run_tag, judge, pipeline, strategy, run_id,
        map_from_entries(list((question_set, score) order by question_set)) as scores,
        avg(score) as mean,
        avg(score_upper) as mean_upper,
        count(score) as n_benchmarks,
        sum(n_planned)::bigint as n_planned, sum(n_scored)::bigint as n_scored,
        sum(n_failed)::bigint as n_failed, sum(n_undecided)::bigint as n_undecided, sum(n_excluded)::bigint as n_excluded
    from metrics
    where null_policy = 'legacy'
    group by all
)
select by_run.* exclude (run_id), runs.status, runs.created_at, run_id
from by_run
left join lake.runs using (run_id)
order by by_run.model, judge, pipeline, strategy, by_run.base_tag, by_run.run_number;
