-- Runs that were asked only the first n_asked questions of a question set (--limit), by benchmark.
create view limited_sets as
with limited as (
    -- Of these runs alone: of all, taking specs apart is most of the work of a leaderboard.
    select run_id, spec, unnest(json_keys(spec, '$.benchmarks')) as benchmark
    from lake.runs
    where regexp_matches(spec, '"limit": ?[0-9]')
),
of_sets as (
    select
        run_id, benchmark, json_extract_string(spec, '$.benchmarks."' || benchmark || '".question_set') as question_set,
        (spec ->> ('$.benchmarks."' || benchmark || '".limit'))::bigint as n_asked
    from limited
)
select run_id, benchmark, question_set, n_asked
from of_sets
join (
    select benchmark, question_set, count(*) as n_in_set from lake.questions group by all
) as sets using (benchmark, question_set)
where n_asked < n_in_set;
