-- What a leaderboard can be narrowed to: tags, judges, question sets and passes that have scores.
with together as (
    select distinct base_tag as tag, judge, question_set as set, pipeline as passes
    from metrics
)
select distinct kind, name
from (unpivot together on * into name kind value name)
order by kind, name
