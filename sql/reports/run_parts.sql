-- What a run is made of, benchmark by benchmark: how much is planned, and what the lake has.
with parts as (
    select
        benchmark, question_set, coalesce(samples, 1) as samples, judges, strategies,
        least(
            (spec ->> ('$.benchmarks."' || benchmark || '".n_questions'))::bigint,
            coalesce((spec ->> ('$.benchmarks."' || benchmark || '".limit'))::bigint, 1e12::bigint)
        ) as n_questions
    from run_benchmarks
    join runs using (run_id)
    where run_id = $run_id
),
answered as (
    select benchmark, count(*) filter (status = 'ok') as n_answers, count(*) filter (status = 'error') as n_failed_answers
    from answers
    where run_id = $run_id
    group by all
),
judged as (
    select
        benchmark, count(*) filter (status in ('ok', 'excluded', 'skipped')) as n_judgements,
        count(*) filter (status = 'error') as n_failed_judgements, count(*) filter (out_of_scale) as n_out_of_scale,
        count(distinct judge) as n_judges
    from judgements
    where run_id = $run_id and not superseded and strategy is null
    group by all
)
select
    benchmark, question_set, n_questions * samples as n_planned_answers,
    n_questions * samples * greatest(coalesce(len(judges), 0), coalesce(n_judges, 0)) as n_planned_judgements,
    coalesce(n_answers, 0) as n_answers, coalesce(n_failed_answers, 0) as n_failed_answers,
    coalesce(n_judgements, 0) as n_judgements, coalesce(n_failed_judgements, 0) as n_failed_judgements,
    coalesce(n_out_of_scale, 0) as n_out_of_scale
from parts
left join answered using (benchmark)
left join judged using (benchmark)
order by benchmark
