-- Means over the judges that some runs share.
select model, run_tag, benchmark, question_sets, judges, score, score_upper, n_planned, n_scored, n_failed, n_undecided, n_excluded
from multi_judge_leaderboard_of($models, tags := $run_tags, policy := $null_policy, only_judges := $judges)
where pipeline = $pipeline
  and strategy is null
