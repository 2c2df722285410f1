-- The roll-up of scores per run, judge, benchmark, pipeline and null policy, without the single scores that lake.metrics has
-- for intervals and ties.
create view metrics as
select metrics.* exclude (question_ids, question_scores)
    replace (coalesce(judge_configs.judge_config_hash, metrics.judge_config_hash) as judge_config_hash)
from lake.metrics
left join judge_configs on former_hash = metrics.judge_config_hash;
