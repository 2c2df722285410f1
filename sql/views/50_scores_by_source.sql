-- The scores of imported trees: one row per source (tree) × model × judge × benchmark × question set × strategy ×
-- pipeline, on the reported scale under the policy legacy, as its judge's run has it. Whatever was imported before or
-- after, and in whatever order, a tree's rows are the same. Runs that others have superseded are left out.
create view scores_by_source as
select
    source, model, judge, benchmark, question_set, pipeline, strategy,
    score, score_upper, sd_questions, n_planned, n_scored, n_failed, n_undecided, n_excluded, run_tag, run_id
from current_metrics
join (select run_id, source from lake.runs where source is not null) using (run_id)
where null_policy = 'legacy';
