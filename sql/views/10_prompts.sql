-- The texts behind prompt_hash, judge_prompt_hash and the like: one row for each template that a prompt is made of, in
-- order (position), with the label by which people know the prompt (tengu-primary v3). Imported history has none.
create view prompts as
select * from lake.prompts
qualify row_number() over (partition by prompt_hash, position order by created_at, label) = 1;
