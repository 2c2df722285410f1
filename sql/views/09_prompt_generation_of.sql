-- prompt_generation_of(judge, source): the row of prompt_generations for a judge of an imported tree, as a struct; null where
-- nothing is known, or where source is null since it was made here.
create macro prompt_generation_of(of_judge, of_source) as (
    select arg_max(known, tree is not null)
    from prompt_generations as known
    where judge = of_judge
      and contains(lower(of_source), coalesce(tree, ''))
);
