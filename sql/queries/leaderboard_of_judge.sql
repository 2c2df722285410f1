-- The models as one judge ranks them on a benchmark, reported scale, with denominators; policy legacy, zero or strict.
-- Ranks are among scores with the same judge_prompt and passes.
-- $judge: judge
-- $benchmark: benchmark or overall = null
-- $policy: null policy = legacy
-- $pipeline: pipeline = baseline
select
    benchmark, question_set,
    rank() over (partition by benchmark, question_set, strategy, judge_prompt, pipeline_hash order by score desc nulls last) as rank,
    model, run_tag, score, sd_questions, n_scored, n_planned, n_failed, n_excluded, strategy, judge_prompt
from leaderboard_under($policy)
where judge = $judge
  and benchmark = coalesce($benchmark, benchmark)
  and pipeline = $pipeline
order by benchmark, question_set, strategy, judge_prompt, pipeline_hash, rank, model, run_tag;
