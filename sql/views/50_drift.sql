-- Mean score on the reported scale by the month in which the judge was asked, per model × judge × benchmark ×
-- question set: every judgement ever made, replaced ones included, but no failure of ours that another one replaced,
-- and none that a decision asked for, since it stops early at what suits it.
-- Month null: made elsewhere (imported), time unknown.
create view drift as
with scales as (
    select benchmark, max(reported_multiplier) as reported_multiplier
    from lake.metrics
    group by benchmark
)
select
    model, judge, benchmark, question_set,
    case when request_hash is not null then date_trunc('month', created_at)::date end as month,
    avg(score * reported_multiplier) as score,
    stddev_samp(score * reported_multiplier) as sd,
    count(*) as n_judgements,
    count(score) as n_scored,
    count(*) filter (superseded) as n_superseded,
    count(distinct run_id) as n_runs,
    count(distinct judge_config_hash) as n_judge_configs
from judgements
join scales using (benchmark)
where status in ('ok', 'error')
  and strategy is null
  and run_id not in (select run_id from lake.runs where len(json_extract(spec, '$.benchmarks.*.asked')) > 0)
  and not (superseded and status = 'error' and request_hash is not null)
group by all;
