-- Some models ($models, separated by commas) over the judges and question sets that all their runs share.
-- $models: models
-- $benchmark: benchmark or overall = overall
-- $run_tags: tag or base tags = null
-- $policy: null policy = legacy
select
    benchmark, question_sets, judges, model, run_tag, score, score_upper, n_scored, n_planned, n_failed, n_undecided, n_excluded,
    n_runs, pipeline, strategy
from multi_judge_leaderboard_of(
    string_split($models, ','), tags := string_split($run_tags, ','), policy := $policy
)
where benchmark = coalesce($benchmark, benchmark);
