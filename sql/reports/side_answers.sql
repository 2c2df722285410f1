-- What some runs answered to one question, texts up to $most characters; cost: of the call, where another run paid for it
-- or no price is known null.
with paid as (
    select run_id, request_hash, max(cost_usd) as cost_usd
    from calls
    where stage = 'answers'
      and list_contains($run_ids, run_id)
      and question_id = $question_id
    group by all
)
select
    run_id, run_tag, sample_index,
    left(answer, $most) as answer, coalesce(length(answer), 0) as answer_length,
    left(thinking, $most) as thinking, coalesce(length(thinking), 0) as thinking_length,
    status, error_class, error_message, coalesce(answer_ending, finish_reason) as ending,
    answer_prompt_tokens as prompt_tokens, answer_completion_tokens as completion_tokens,
    answer_reasoning_tokens as reasoning_tokens, latency_seconds, cost_usd, prompt_hash, request_hash,
    not_recorded, created_at
from answers
left join paid using (run_id, request_hash)
where benchmark = $benchmark
  and question_id = $question_id
  and list_contains($run_ids, run_id)
order by run_tag, sample_index
