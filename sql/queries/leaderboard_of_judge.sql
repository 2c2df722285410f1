-- The models as one judge ranks them on a benchmark, reported scale, with denominators; policy legacy, zero or strict.
-- Ranks are among scores with the same judge_prompt and passes; null where score and score_upper give another one.
-- $judge: judge
-- $benchmark: benchmark or overall = null
-- $policy: null policy = legacy
-- $pipeline: pipeline = baseline
select
    benchmark, question_set,
    case when rank() over (alike order by score desc nulls last) = rank() over (alike order by score_upper desc nulls last)
        then rank() over (alike order by score desc nulls last) end as rank,
    model, run_tag, score, score_upper, sd_questions, n_scored, n_planned, n_failed, n_undecided, n_excluded, strategy, judge_prompt
from leaderboard_under($policy)
where judge = $judge
  and benchmark = coalesce($benchmark, benchmark)
  and pipeline = $pipeline
window alike as (partition by benchmark, question_set, strategy, judge_prompt, pipeline_hash)
order by benchmark, question_set, strategy, judge_prompt, pipeline_hash, score desc nulls last, model, run_tag;
