-- judge_prompt_of(judge, judge_prompt_hash, source): what tells a judge's prompts apart: the hash, or `not recorded in TREE`
-- where an imported tree does not say, as each tree may have its own, with what dates say of them. Rules have none.
create macro judge_prompt_of(judge, judge_prompt_hash, source) as case
    when judge_prompt_hash is null and source is not null and not starts_with(judge, 'rule:') then concat(
        'not recorded in ' || source,
        ' (by dates ' || prompt_generation_of(judge, source).prompt_generation
        || ', ' || prompt_generation_of(judge, source).generation_certainty || ')'
    )
    else judge_prompt_hash
end;
