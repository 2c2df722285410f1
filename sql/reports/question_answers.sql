-- What models answered to some questions of a benchmark, with what passes found in it (the newest settings of each pass); texts up to $most
-- characters, null: whole. Cost: of the call, where another run paid for it or no price is known null.
with paid as (
    select run_id, request_hash, max(cost_usd) as cost_usd
    from calls
    where stage = 'answers'
      and list_contains($question_ids, question_id)
    group by all
),
newest as (
    select question_id, run_id, sample_index, pass, severity, reason, details
    from pass_outputs
    where benchmark = $benchmark
      and list_contains($question_ids, question_id)
      and strategy is null
      and severity is not null
    qualify row_number() over (partition by question_id, run_id, sample_index, pass order by created_at desc) = 1
),
found as (
    select
        question_id, run_id, sample_index,
        list({'pass': pass, 'severity': severity, 'reason': reason, 'details': details} order by pass) as findings
    from newest
    group by all
)
select
    model, run_tag, question_set, sample_index, coalesce(left(answer, $most), answer) as answer, status, error_class,
    finish_reason, created_at, question_id, run_id, coalesce(length(answer), 0) as answer_length, answer_hash,
    coalesce(left(thinking, $most), thinking) as thinking, coalesce(length(thinking), 0) as thinking_length,
    error_message, coalesce(answer_ending, finish_reason) as ending, answer_prompt_tokens as prompt_tokens,
    answer_completion_tokens as completion_tokens, answer_reasoning_tokens as reasoning_tokens, latency_seconds,
    cost_usd, prompt_hash, request_hash, not_recorded, coalesce(findings, []) as findings
from answers
left join paid using (run_id, request_hash)
left join found using (question_id, run_id, sample_index)
where benchmark = $benchmark
  and list_contains($question_ids, question_id)
  and ($run_id is null or run_id = $run_id)
  and ($models is null or run_id in (from selected_runs($models, null, null)))
order by model, run_tag, sample_index
