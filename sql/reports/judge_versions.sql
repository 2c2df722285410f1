-- With which prompts and settings some judges judged some runs; of imported prompts what dates say of them.
select distinct
    run_id, benchmark, judge, judge_config_hash as settings,
    coalesce(judge_prompt_hash, 'by dates ' || prompt_generation || ', ' || generation_certainty) as prompts
from judgements
where list_contains($run_ids, run_id)
  and list_contains($judges, judge)
  and not superseded
  and strategy is null
  and status = 'ok'
order by all
