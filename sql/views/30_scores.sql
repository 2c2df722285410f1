-- A judgement's score under each pass pipeline; baseline is the judge's own score.
create view scores as
select
    scores.* replace (coalesce(judge_configs.judge_config_hash, scores.judge_config_hash) as judge_config_hash)
from lake.scores
left join judge_configs on former_hash = scores.judge_config_hash;
