-- Failed and excluded samples by stage, run and class, with the most frequent message and a question that has it.
with failed as (
    select 'answers' as stage, run_id, benchmark, null as judge, status, error_class, error_message, question_id
    from answers
    union all by name
    select 'consensus' as stage, run_id, benchmark, status, error_class, error_message, question_id
    from consensus
    union all by name
    select 'judgements' as stage, run_id, benchmark, judge, status, error_class, error_message, question_id
    from judgements
    where not superseded
    union all by name
    select 'pass_outputs' as stage, run_id, benchmark, status, error_class, error_message, question_id
    from pass_outputs
), by_message as (
    select stage, run_id, benchmark, judge, status, error_class, error_message, count(*) as n, min(question_id) as question_id
    from failed
    where status <> 'ok'
    group by all
)
select
    stage,
    run_id,
    benchmark,
    judge,
    status,
    error_class,
    sum(n)::bigint as n,
    max_by(error_message, (n, error_message)) as message,
    max_by(question_id, (n, error_message)) as example
from by_message
group by all
order by n desc, stage, run_id, benchmark, judge, error_class;
