-- The roll-up of scores per run, judge, benchmark, pipeline and null policy.
create view metrics as
select
    metrics.* replace (coalesce(judge_configs.judge_config_hash, metrics.judge_config_hash) as judge_config_hash)
from lake.metrics
left join judge_configs on former_hash = metrics.judge_config_hash;
