-- The passes with prompts that stored rows are of, with their settings.
select distinct pass, pass_config
from lake.pass_outputs
where pass_prompt_hash is not null
order by all
