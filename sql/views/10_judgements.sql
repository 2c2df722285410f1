-- One row per answer and judge; replaced judgements and failures stay as superseded rows. Imported ones have the prompts that
-- they were most likely made with (prompt_generations), and how sure that is: unknown where dates tell nothing.
create view judgements as
select
    dated.* exclude (source, by_dates),
    by_dates.prompt_generation,
    if(source is null or starts_with(judge, 'rule:'), null, coalesce(by_dates.generation_certainty, 'unknown')) as generation_certainty
from (
    select
        judgements.* replace (coalesce(judge_configs.judge_config_hash, judgements.judge_config_hash) as judge_config_hash),
        source,
        prompt_generation_of(judge, source) as by_dates
    from lake.judgements
    left join judge_configs on former_hash = judgements.judge_config_hash
    left join (select run_id, source from lake.runs) using (run_id)
) as dated;
