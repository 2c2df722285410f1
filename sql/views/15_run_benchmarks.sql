-- One row per run × benchmark: its question set, how many samples each question has, whether the single answer is a sample
-- of its own or the first of those that strategies share (null: no strategy), the strategies (none: an empty list), and
-- who judges. Of imported runs only what their files say.
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
    settings ->> 'single' as single,
    (settings -> 'strategies')::varchar[] as strategies,
    (settings -> 'judges')::varchar[] as judges
from own;
