-- One row per answer and judge; replaced judgements and failures stay as superseded rows. Imported ones have the prompts that
-- they were most likely made with (prompt_generations), and how sure that is: unknown where dates tell nothing.
create view judgements as
-- As prompt_generation_of says it, which would take seconds for half a million rows.
with dated as (
    select
        source, judge, arg_max(prompt_generation, tree is not null) as prompt_generation,
        arg_max(generation_certainty, tree is not null) as generation_certainty
    from (select distinct source from lake.runs where source is not null)
    join prompt_generations on contains(lower(source), coalesce(tree, ''))
    group by all
)
select
    judgements.*,
    dated.prompt_generation,
    case
        when runs.source is not null and not starts_with(judgements.judge, 'rule:')
            then coalesce(dated.generation_certainty, 'unknown')
    end as generation_certainty
from lake.judgements
left join (select run_id, source from lake.runs) as runs on runs.run_id = judgements.run_id
left join dated on dated.source = runs.source and dated.judge = judgements.judge;
