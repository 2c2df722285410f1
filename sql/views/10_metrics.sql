-- The roll-up of scores per run, judge, benchmark, pipeline and null policy, without the single scores that lake.metrics has
-- for intervals and ties.
create view metrics as
select metrics.* exclude (question_ids, question_scores, undecided)
    replace (
        coalesce(judge_configs.judge_config_hash, metrics.judge_config_hash) as judge_config_hash,
        case when n_undecided is null then score else score_upper end as score_upper,  -- of before format 7
        coalesce(n_undecided, 0) as n_undecided
    )
from lake.metrics
left join judge_configs on former_hash = metrics.judge_config_hash;
