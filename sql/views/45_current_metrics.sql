-- The roll-up of scores of the runs that leaderboards are of: all but imported runs whose answers others have replaced.
-- judge_prompt tells the judge's prompts apart: judge_prompt_hash, or `not recorded in TREE` where an imported tree does not
-- say, as each tree may have its own. Rules have none.
create view current_metrics as
select
    metrics.*,
    case
        when judge_prompt_hash is null and not starts_with(judge, 'rule:') then 'not recorded in ' || source
        else judge_prompt_hash
    end as judge_prompt
from lake.metrics
left join (select run_id, source, superseded_by from lake.runs) using (run_id)
where superseded_by is null;
