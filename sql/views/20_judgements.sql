-- One row per answer and judge; replaced judgements and failures stay, with superseded = true and superseded_at.
create view judgements as
select
    judgements.* replace (coalesce(judge_configs.judge_config_hash, judgements.judge_config_hash) as judge_config_hash)
from lake.judgements
left join judge_configs on former_hash = judgements.judge_config_hash;
