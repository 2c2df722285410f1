-- What judges said of the answers of some runs to one question, with the deltas of a pipeline of passes; scores on the
-- judge's own scale. Stale: the judgement is of another text, prompt or setting than the run's others.
with passed as (
    select run_id, sample_index, judge, deltas, score as passed_score
    from scores
    where benchmark = $benchmark
      and question_id = $question_id
      and list_contains($run_ids, run_id)
      and pipeline = $pipeline
      and strategy is null
)
select
    judgements.run_id, judgements.sample_index, judgements.judge, judgements.score, passed_score,
    coalesce(deltas, []) as deltas, coalesce(out_of_scale, false) as out_of_scale, score_source,
    left(judge_output, $most) as judge_output, coalesce(length(judge_output), 0) as judge_output_length,
    left(fallback_output, $most) as fallback_output, judgements.status, judgements.error_class, error_message,
    judge_prompt_tokens as prompt_tokens, judge_completion_tokens as completion_tokens, judge_prompt_hash,
    request_hash, judgements.answer_hash is distinct from answers.answer_hash as stale, judgements.created_at
from judgements
left join passed
  on passed.run_id = judgements.run_id
 and passed.sample_index = judgements.sample_index
 and passed.judge = judgements.judge
left join (
    select run_id, sample_index, answer_hash
    from answers
    where benchmark = $benchmark
      and question_id = $question_id
      and list_contains($run_ids, run_id)
) as answers
  on answers.run_id = judgements.run_id
 and answers.sample_index = judgements.sample_index
where benchmark = $benchmark
  and question_id = $question_id
  and list_contains($run_ids, judgements.run_id)
  and strategy is null
  and not superseded
  and ($judges is null or list_contains($judges, judgements.judge))
order by judgements.judge
