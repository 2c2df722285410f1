-- With which generation of prompts a judge of an imported tree most likely judged; null: nothing is known.
select (prompt_generation_of($judge, $source)).prompt_generation as prompt_generation
