-- The templates of a prompt, or of all, with the label by which people know it.
select prompt_hash, position, template, source, file, variant, purpose, label
from prompts
where $prompt_hash is null or prompt_hash = $prompt_hash
order by position
