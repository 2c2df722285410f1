-- One row per run × benchmark × judge × strategy (single: the answer without a consensus; samples: all shared samples).
-- score: where rules grade the accuracy, in which what the rule could not decide is wrong and failed calls are left out;
-- else the mean of the scored answers on the reported scale. score_upper: without what the rule could not decide. difference: the score less the mean of the shared samples, over the
-- n_against_samples questions to which both have an answer; delta: less that of single, over n_against_single questions,
-- of which only the strategy gets n_gained right and only single n_lost. Tokens, calls, seconds (waiting included) and cost
-- are those of the strategy's own calls, without its samples, reused ones included; of the cost, calls without a known
-- price and calls that another run has paid for are left out and counted. n_unreadable: of the failed ones those in which
-- a judge wrote something without a verdict.
create view ensemble_results as
with verdicts as (
    select *, coalesce(strategy, 'samples') as name
    from ensemble_verdicts
),
by_question as (
    select run_id, benchmark, judge, name, question_id, avg(score) as score
    from verdicts
    where answered
    group by all
),
compared as (
    select
        run_id, benchmark, judge, strategies.name,
        count(single.score) as n_against_single,
        avg(strategies.score - single.score) as delta,
        count(*) filter (strategies.score > single.score) as n_better,
        count(*) filter (strategies.score < single.score) as n_worse,
        count(samples.score) as n_against_samples,
        avg(strategies.score - samples.score) as difference
    from by_question as strategies
    left join (from by_question where name = 'single') as single using (run_id, benchmark, judge, question_id)
    left join (from by_question where name = 'samples') as samples using (run_id, benchmark, judge, question_id)
    group by run_id, benchmark, judge, strategies.name
),
planned as (
    select run_id, benchmark, judge, coalesce(strategy, 'samples') as name, n_planned
    from lake.metrics
    where null_policy = 'zero'
      and pipeline = 'baseline'
      and strategy is not null
),
prices_of_answers as (
    select request_hash, max(cost_usd) as cost_usd
    from lake.calls
    where status = 'ok'
      and stage = 'answers'
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
    from lake.calls
    where status = 'ok'
      and stage = 'consensus'
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
        coalesce(max(n_planned), count(*)) as n_planned,
        count(*) filter (status = 'ok') as n_scored,
        count(*) filter (status = 'excluded' and correct is not null) as n_undecided,
        count(*) filter (status = 'excluded' and correct is null) as n_excluded,
        count(*) filter (status = 'error' and error_class in ('no_score', 'empty_output', 'out_of_scale')) as n_unreadable,
        sum(correct::integer)::bigint as n_correct,
        avg(score) as mean_score
    from verdicts
    left join planned using (run_id, benchmark, judge, name)
    group by all
)
select
    run_id, model, run_tag, benchmark, question_set, name as strategy, judge,
    n_planned, n_scored, n_planned - n_scored - n_undecided - n_excluded as n_failed, n_undecided, n_excluded, n_unreadable,
    n_correct,
    n_correct / nullif(n_scored + n_undecided, 0) as accuracy,
    n_correct / nullif(n_scored, 0) as accuracy_scored,
    case when n_correct is null then mean_score else accuracy end as score,
    coalesce(accuracy_scored, score) as score_upper,
    coalesce(n_against_samples, 0) as n_against_samples, difference,
    coalesce(n_against_single, 0) as n_against_single, delta,
    case when compared.n_against_single > 0 and n_correct is not null and name <> 'samples' then n_better end as n_gained,
    case when n_gained is not null then n_worse end as n_lost,
    calls, prompt_tokens, completion_tokens, cost_usd, calls_without_cost, seconds
from counted
left join compared using (run_id, benchmark, judge, name)
left join used using (run_id, benchmark, name);
