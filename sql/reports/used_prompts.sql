-- The hashes of all prompts that stored rows were made with.
select distinct prompt_hash from lake.answers
union
select strategy_prompt_hash from lake.consensus
union
select judge_prompt_hash from lake.judgements
union
select pass_prompt_hash from lake.pass_outputs
