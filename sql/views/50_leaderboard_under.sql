-- leaderboard_under('legacy' | 'zero' | 'strict'): scores on the reported scale with their denominators, best first.
-- What a rule could not decide (n_undecided) is wrong in score and left out of score_upper: the truth lies between them.
-- Scores compare where judge_prompt and pipeline_hash are the same: another prompt is another judge. Scores of
-- rules compare where judge_config_hash is the same: it says which version of a rule graded.
create macro leaderboard_under(policy) as table
select
    model, run_tag, judge, benchmark, question_set, pipeline, strategy,
    score, score_upper, sd_questions, n_planned, n_scored, n_failed, n_undecided, n_excluded, null_policy, run_id, base_tag, run_number,
    judge_prompt_hash, pipeline_hash, n_out_of_scale, judge_config_hash, judge_prompt
from current_metrics
where null_policy = policy
order by benchmark, judge, score desc nulls last, model, run_tag;
