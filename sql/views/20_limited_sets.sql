-- Runs that were asked only the first n_asked questions of a question set (--limit), by benchmark.
create view limited_sets as
select
    run_benchmarks.run_id, run_benchmarks.benchmark, run_benchmarks.question_set,
    (runs.spec ->> '$.limit')::bigint as n_asked
from run_benchmarks
join lake.runs using (run_id)
join (
    select benchmark, question_set, count(*) as n_in_set from lake.questions group by all
) as sets using (benchmark, question_set)
where (runs.spec ->> '$.limit')::bigint < n_in_set;
