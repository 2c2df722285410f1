-- What became of the replies of some runs, by benchmark and judge: one row for each, with the score under each null
-- policy. Truncated: cut off by the token limit. Out of scale: scores that count although they are, and failures for that
-- reason. Retried: calls of any stage that took more than one request.
with replies as (
    select
        run_id, benchmark, count(*) as n_answers,
        count(*) filter (ending = 'refused') as n_refused,
        count(*) filter (ending = 'filtered') as n_filtered,
        count(*) filter (ending = 'truncated') as n_truncated,
        count(*) filter (answer_state in ('empty', 'whitespace') or error_class = 'empty_answer') as n_empty
    from (
        select
            *,
            coalesce(
                answer_ending,
                case
                    when finish_reason = 'refusal' then 'refused'
                    when finish_reason = 'content_filter' then 'filtered'
                    when truncated or finish_reason = 'length' then 'truncated'
                end
            ) as ending
        from answers
        where list_contains($run_ids, run_id)
    )
    group by all
),
outside as (
    select run_id, benchmark, judge, count(*) as n_failed_outside
    from judgements
    where list_contains($run_ids, run_id) and strategy is null and not superseded and error_class = 'out_of_scale'
    group by all
),
retries as (
    select run_id, benchmark, count(*) filter (attempts > 1) as n_retried
    from calls
    where list_contains($run_ids, run_id)
    group by all
)
select
    run_id, any_value(model) as model, any_value(run_tag) as run_tag, judge, benchmark,
    any_value(coalesce(n_answers, 0)) as n_answers,
    any_value(coalesce(n_refused, 0)) as n_refused,
    any_value(coalesce(n_filtered, 0)) as n_filtered,
    any_value(coalesce(n_truncated, 0)) as n_truncated,
    any_value(coalesce(n_empty, 0)) as n_empty,
    max(coalesce(n_out_of_scale, 0)) + any_value(coalesce(n_failed_outside, 0)) as n_out_of_scale,
    any_value(coalesce(n_retried, 0)) as n_retried,
    max(score) filter (null_policy = 'legacy') as legacy,
    max(score) filter (null_policy = 'zero') as zero,
    max(score) filter (null_policy = 'strict') as strict
from metrics
left join replies using (run_id, benchmark)
left join outside using (run_id, benchmark, judge)
left join retries using (run_id, benchmark)
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and strategy is null
  and ($judges is null or list_contains($judges, judge))
group by run_id, judge, benchmark
order by model, run_tag, judge, benchmark
