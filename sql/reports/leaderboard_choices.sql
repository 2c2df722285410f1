-- What a leaderboard can be narrowed to: tags, judges, question sets and passes that have scores.
select distinct kind, name
from (
    select unnest([
        {kind: 'tag', name: base_tag}, {kind: 'judge', name: judge}, {kind: 'set', name: question_set},
        {kind: 'passes', name: pipeline}
    ], recursive := true)
    from metrics
)
order by kind, name
