-- Mean score on the reported scale by the month in which the judge was asked, per model × judge × benchmark ×
-- question set, each piece of evidence once: without what a decision asked for, since it stops early at what suits it.
-- Replaced judgements do not count; n_superseded tells how many were made in that month.
-- Month null: made elsewhere (imported), time unknown.
create view drift as
with scales as (
    select benchmark, max(reported_multiplier) as reported_multiplier
    from lake.metrics
    group by benchmark
),
decided as (
    select run_id from lake.runs where list_count(json_extract_string(spec, '$.benchmarks.*.asked')) > 0
),
replaced as (
    select
        model, judge, benchmark, question_set, date_trunc('month', created_at)::date as month, count(*) as n_superseded
    from lake.judgements
    where superseded
      and request_hash is not null
      and status = 'ok'
      and strategy is null
      and run_id not in (from decided)
    group by all
),
by_month as (
    select
        model, judge, benchmark, unnest(question_sets) as question_set,
        case when request_hash is not null then date_trunc('month', judged_at)::date end as month,
        score * reported_multiplier as score, run_id, judge_config_hash
    from judgement_evidence
    join scales using (benchmark)
    where status in ('ok', 'error')
      and strategy is null
      and run_id not in (from decided)
)
select
    model, judge, benchmark, question_set, by_month.month,
    avg(score) as score,
    stddev_samp(score) as sd,
    count(*) as n_judgements,
    count(score) as n_scored,
    coalesce(any_value(n_superseded), 0) as n_superseded,
    count(distinct run_id) as n_runs,
    count(distinct judge_config_hash) as n_judge_configs
from by_month
left join replaced using (model, judge, benchmark, question_set, month)
group by model, judge, benchmark, question_set, by_month.month;
