-- One row per run × benchmark: its question set, how many samples each question has, whether the single answer is a sample
-- of its own or the first of those that strategies share (null: no strategy), the strategies (none: an empty list), and
-- who judges (null in runs of earlier programs: see judgements). Of imported runs only what their files say.
create view run_benchmarks as
with stored as (
    select run_id, model, run_tag, spec, unnest(json_keys(spec, '$.benchmarks')) as benchmark
    from lake.runs
),
own as (
    select *, json_extract(spec, '$.benchmarks."' || benchmark || '"') as settings
    from stored
)
select
    run_id, model, run_tag, benchmark,
    settings ->> 'question_set' as question_set,
    settings ->> 'question_set_sha256' as question_set_sha256,
    (settings ->> 'samples')::bigint as samples,
    -- Runs of earlier versions have what follows once, for all their benchmarks.
    coalesce(settings ->> 'single', spec ->> '$.ensemble.single') as single,
    coalesce(
        (settings -> 'strategies')::varchar[],
        case when spec ->> '$.ensemble.single' is not null
            then list_prepend('single', (spec -> '$.ensemble.strategies')::varchar[]) end,
        []
    ) as strategies,
    (settings -> 'judges')::varchar[] as judges
from own;
