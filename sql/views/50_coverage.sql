-- Which model × run tag × judge × benchmark × question set exists, with the samples planned, scored, failed,
-- undecided and excluded. Judge null: answers that no judge's metrics count yet. n_answers: rows of answers, failures included.
create view coverage as
with answered as (
    select
        run_id, any_value(model) as model, any_value(run_tag) as run_tag, benchmark, question_set,
        count(*) as n_answers,
        count(*) filter (status <> 'ok') as n_failed_answers
    from lake.answers
    group by run_id, benchmark, question_set
)
select
    coalesce(metrics.model, answered.model) as model,
    coalesce(metrics.run_tag, answered.run_tag) as run_tag,
    judge, benchmark, question_set, pipeline, strategy,
    n_answers, n_failed_answers, n_planned, n_scored, n_failed, n_undecided, n_excluded, run_id
from answered
full join (from metrics where null_policy = 'legacy') as metrics using (run_id, benchmark, question_set);
