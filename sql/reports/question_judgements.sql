-- What judges said of the answers to some questions of a benchmark, on the judge's own scale, and what each pass of $pipeline
-- added to it; texts up to $most characters, null: whole. Replaced judgements are left out.
select
    model, run_tag, sample_index, strategy, judge, score, score_source,
    coalesce(left(judge_output, $most), judge_output) as judge_output, status, error_class, created_at, question_id, run_id,
    answer_hash, coalesce(out_of_scale, false) as out_of_scale, coalesce(length(judge_output), 0) as judge_output_length,
    coalesce(left(fallback_output, $most), fallback_output) as fallback_output, error_message,
    judge_prompt_tokens as prompt_tokens, judge_completion_tokens as completion_tokens, judge_prompt_hash, request_hash,
    coalesce(deltas, []) as deltas
from (select *, coalesce(strategy, '') as answered_by from judgements) as judgements
left join (
    select question_id, run_id, sample_index, coalesce(strategy, '') as answered_by, judge, deltas
    from scores
    where benchmark = $benchmark
      and list_contains($question_ids, question_id)
      and pipeline = $pipeline
      and pipeline <> 'baseline'
) using (question_id, run_id, sample_index, answered_by, judge)
where benchmark = $benchmark
  and list_contains($question_ids, question_id)
  and not superseded
  and ($run_id is null or run_id = $run_id)
  and ($models is null or run_id in (from selected_runs($models, null, null)))
  and ($judges is null or list_contains($judges, judge))
order by model, run_tag, strategy nulls first, sample_index, judge
