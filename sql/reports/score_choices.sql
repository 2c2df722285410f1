-- What scores can be narrowed to: tags, judges, question sets and passes of some runs that have scores.
with together as (
    select distinct base_tag as tag, judge, question_set as set, pipeline as passes
    from metrics
    where ($without_strategies is null or strategy is null)
      and (
          $models is null and $tags is null and $sources is null
          or run_id in (from selected_runs($models, $tags, $sources))
      )
      and ($first_runs is null or run_number <= $first_runs)
)
select distinct kind, name
from (unpivot together on * into name kind value name)
order by kind, name
