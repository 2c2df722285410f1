-- The templates of a prompt.
select position, template, source, file, variant, purpose, label
from prompts
where prompt_hash = $prompt_hash
order by position
