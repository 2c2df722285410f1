-- Named baselines: what a run got right when it was promoted, one row per dataset, strategy and question.
create view baselines as
select
    baselines.* replace (coalesce(judge_configs.judge_config_hash, baselines.judge_config_hash) as judge_config_hash)
from lake.baselines
left join judge_configs on former_hash = baselines.judge_config_hash;
