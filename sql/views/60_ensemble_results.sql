-- One row per run × benchmark × strategy (single: the answer without a consensus; samples: all shared samples) with its
-- accuracy, over planned answers (a failure or an abstention is wrong) and over scored ones, and against single: delta,
-- and the questions that only the strategy or only single gets right. Tokens, calls, seconds (waiting included) and cost
-- are those of the strategy's own calls, without its samples, reused ones included; of the cost, calls without a known
-- price and calls that another run has paid for are left out and counted. n_unreadable: of the failed ones those in which
-- a grading model wrote something without a verdict.
create view ensemble_results as
with verdicts as (
    select *, coalesce(strategy, 'samples') as name
    from ensemble_verdicts
),
against_single as (
    select
        one.run_id, one.benchmark, one.name,
        count(*) filter (one.correct and not single.correct) as n_gained,
        count(*) filter (single.correct and not one.correct) as n_lost
    from verdicts as one
    join verdicts as single
      on single.run_id = one.run_id
     and single.benchmark = one.benchmark
     and single.question_id = one.question_id
     and single.strategy = 'single'
    where one.strategy is not null
    group by all
),
planned as (
    select run_id, benchmark, judge, coalesce(strategy, 'samples') as name, n_planned
    from lake.metrics
    where null_policy = 'zero'
      and pipeline = 'baseline'
      and strategy is not null
),
paid as (
    select run_id, request_hash, stage, benchmark, question_id, purpose, cost_usd
    from lake.calls
    where status = 'ok'
      and stage in ('answers', 'consensus')
),
prices_of_answers as (
    select request_hash, max(cost_usd) as cost_usd
    from paid
    where stage = 'answers'
    group by all
),
answered as (
    select
        answers.run_id, answers.benchmark, unnest(case
            when sample_index = 0 and single = 'own' then ['single']
            when sample_index = 0 then ['single', 'samples']
            else ['samples'] end) as name,
        1 as calls, answer_prompt_tokens as prompt_tokens, answer_completion_tokens as completion_tokens,
        latency_seconds, cost_usd, (cost_usd is null)::integer as calls_without_cost
    from lake.answers as answers
    join run_benchmarks using (run_id, benchmark)
    left join prices_of_answers using (request_hash)
    where single is not null
),
prices_of_consensus as (
    select
        run_id, benchmark, question_id, split_part(purpose, ':', 1) as strategy,
        sum(cost_usd::decimal(38, 12)) as cost_usd, count(cost_usd) as calls_with_cost
    from paid
    where stage = 'consensus'
    group by all
),
decided as (
    select
        run_id, benchmark, strategy as name, calls,
        consensus_prompt_tokens as prompt_tokens, consensus_completion_tokens as completion_tokens, latency_seconds,
        cost_usd, greatest(calls - coalesce(calls_with_cost, 0), 0) as calls_without_cost
    from lake.consensus
    left join prices_of_consensus using (run_id, benchmark, question_id, strategy)
    where strategy <> 'single'
),
used as (
    select
        run_id, benchmark, name,
        sum(calls)::bigint as calls,
        sum(prompt_tokens)::bigint as prompt_tokens,
        sum(completion_tokens)::bigint as completion_tokens,
        sum(cost_usd::decimal(38, 12))::double as cost_usd,
        sum(calls_without_cost)::bigint as calls_without_cost,
        sum(latency_seconds) as seconds
    from (from answered union all by name from decided)
    group by all
),
counted as (
    select
        run_id, model, run_tag, benchmark, question_set, name, judge,
        count(*) as n_rows,
        max(n_planned) as n_planned,
        count(*) filter (status = 'ok') as n_scored,
        count(*) filter (status = 'excluded') as n_excluded,
        count(*) filter (status = 'error' and error_class in ('no_score', 'empty_output', 'out_of_scale')) as n_unreadable,
        count(*) filter (correct) as n_correct
    from verdicts
    left join planned using (run_id, benchmark, judge, name)
    group by all
),
measured as (
    select
        * exclude (n_rows, n_planned),
        coalesce(n_planned, n_rows) as n_planned,
        n_correct / coalesce(n_planned, n_rows) as accuracy
    from counted
)
select
    run_id, model, run_tag, benchmark, question_set, name as strategy, judge,
    n_planned, n_scored, n_planned - n_scored - n_excluded as n_failed, n_excluded, n_unreadable,
    n_correct, accuracy,
    n_correct / nullif(n_scored, 0) as accuracy_scored,
    accuracy - max(case when name = 'single' then accuracy end) over (partition by run_id, benchmark) as delta,
    n_gained, n_lost,
    calls, prompt_tokens, completion_tokens, cost_usd, calls_without_cost, seconds
from measured
left join against_single using (run_id, benchmark, name)
left join used using (run_id, benchmark, name);
