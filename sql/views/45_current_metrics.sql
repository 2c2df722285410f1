-- The roll-up of scores of the runs that leaderboards are of: all but imported runs whose answers others have replaced.
-- judge_prompt tells the judge's prompts apart: judge_prompt_hash, or `not recorded in TREE` where an imported tree does not
-- say, as each tree may have its own. Rules have none.
create view current_metrics as
select
    metrics.* exclude (question_ids, question_scores, undecided)
        replace (
            case when n_undecided is null then score else score_upper end as score_upper,
            coalesce(n_undecided, 0) as n_undecided
        ),
    judge_prompt_of(judge, judge_prompt_hash, source) as judge_prompt
from lake.metrics
left join (select run_id, source, superseded_by from lake.runs) using (run_id)
where superseded_by is null;
