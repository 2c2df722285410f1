-- One row per answer and judge; replaced judgements and failures stay as superseded rows. Imported ones have the prompts that
-- they were most likely made with (prompt_generations), and how sure that is: unknown where dates tell nothing.
create view judgements as
select
    judgements.* replace (coalesce(judge_configs.judge_config_hash, judgements.judge_config_hash) as judge_config_hash),
    coalesce(in_tree.prompt_generation, elsewhere.prompt_generation) as prompt_generation,
    case
        when source is not null and not starts_with(judgements.judge, 'rule:')
            then coalesce(in_tree.generation_certainty, elsewhere.generation_certainty, 'unknown')
    end as generation_certainty
from lake.judgements
left join judge_configs on former_hash = judgements.judge_config_hash
left join (select run_id, source from lake.runs) as runs on runs.run_id = judgements.run_id
-- Joins, not prompt_generation_of, which takes seconds for half a million rows.
left join prompt_generations as in_tree on in_tree.judge = judgements.judge and contains(lower(source), in_tree.tree)
left join prompt_generations as elsewhere
    on elsewhere.judge = judgements.judge and elsewhere.tree is null and source is not null;
