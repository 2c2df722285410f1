-- leaderboard_under('legacy' | 'zero' | 'strict'): scores on the reported scale with their denominators, best first.
-- Scores compare where judge_prompt_hash and pipeline_hash are the same: another prompt is another judge.
create macro leaderboard_under(policy) as table
select
    model, run_tag, judge, benchmark, question_set, pipeline, strategy,
    score, sd_questions, n_planned, n_scored, n_failed, n_excluded, null_policy, run_id, base_tag, run_number,
    judge_prompt_hash, pipeline_hash, n_out_of_scale
from current_metrics
where null_policy = policy
order by benchmark, judge, score desc nulls last, model, run_tag;
