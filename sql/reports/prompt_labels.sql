-- By which label people know a prompt.
select distinct prompt_hash, label from prompts
