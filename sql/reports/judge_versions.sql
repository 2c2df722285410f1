-- With which prompts and settings some judges judged some runs.
select distinct run_id, benchmark, judge, judge_prompt_hash as prompts, judge_config_hash as settings
from judgements
where list_contains($run_ids, run_id)
  and list_contains($judges, judge)
  and not superseded
  and strategy is null
  and status = 'ok'
order by all
