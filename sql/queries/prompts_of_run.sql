-- The prompts that made a run's rows, with their texts: one row for each template, by stage, benchmark and what used
-- it (asked: the judge, strategy or pass). n_rows: rows in force with that prompt; 0: all of them were replaced. The
-- fallback prompt stands in the view prompts only, for rows name the judge's first prompt. No texts: from before they were
-- recorded, or imported.
-- $model: model or run
-- $run_tag: tag or base tag = null
-- $benchmark: benchmark = null
-- $judge: judge = null
with used as (
    select 'answers' as stage, run_id, model, run_tag, benchmark, null as asked, prompt_hash, true as in_force
    from answers
    union all
    select 'consensus', run_id, model, run_tag, benchmark, strategy, strategy_prompt_hash, true
    from consensus
    union all
    select 'judgements', run_id, model, run_tag, benchmark, judge, judge_prompt_hash, not superseded
    from judgements
    union all
    select 'pass_outputs', run_id, model, run_tag, benchmark, pass, pass_prompt_hash, true
    from pass_outputs
),
counted as (
    select stage, run_id, benchmark, asked, prompt_hash, count(*) filter (in_force) as n_rows
    from used
    where run_id in (from selected_runs([$model], if($run_tag is null, null, [$run_tag]), null))
      and prompt_hash is not null
      and ($benchmark is null or benchmark = $benchmark)
      and ($judge is null or (stage = 'judgements' and asked = $judge))
    group by all
)
select stage, run_id, benchmark, asked, label, position, template, file, variant, n_rows, prompt_hash, source
from counted
left join prompts using (prompt_hash)
order by
    run_id, list_position(['answers', 'consensus', 'judgements', 'pass_outputs'], stage), benchmark, asked,
    prompts.created_at, prompt_hash, position;
