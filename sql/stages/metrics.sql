-- The metrics of runs: mean and spread of their scores under each null policy, with all denominators.
--   legacy: a missing score is left out; zero: it is the scale's minimum; strict: no mean unless every sample has one.
-- The spread is over questions: samples of the same question are averaged first. Sums have a fixed order, so that the
-- same scores give the same metrics to the last bit.
-- Parameters: $first_run_id, $last_run_id, between which all these runs are: files with other runs are not read.
-- Relation: plan (run_id, base_tag, run_number, benchmark, n_planned, n_questions, scale_minimum, scale_maximum,
-- reported_multiplier): n_planned samples, and n_questions answers of each consensus strategy.
with policies as (
    select unnest(['legacy', 'zero', 'strict']) as null_policy
),
own as (
    select
        scores.*, plan.* exclude (run_id, benchmark, n_planned, n_questions), null_policy,
        case when strategy is null then n_planned else n_questions end as n_planned,
        case when null_policy = 'zero' then coalesce(score, scale_minimum) else score end as counted_score
    from lake.scores
    join plan using (run_id, benchmark)
    cross join policies
    where scores.run_id between $first_run_id and $last_run_id
),
by_question as (
    select
        run_id, model, run_tag, base_tag, run_number, benchmark, question_set, strategy, judge, pipeline, null_policy,
        question_id, n_planned, scale_minimum, reported_multiplier,
        max(judge_config_hash) as judge_config_hash,
        max(judge_prompt_hash) as judge_prompt_hash,
        max(pipeline_hash) as pipeline_hash,
        avg(counted_score order by sample_index) as question_mean,
        sum(counted_score order by sample_index) as total,
        count(counted_score) as n_counted,
        count(*) as n_rows,
        count(score) as n_scored,
        count(*) filter (status = 'excluded') as n_excluded,
        count(*) filter (score < scale_minimum or score > scale_maximum) as n_out_of_scale
    from own
    group by all
),
counted as (
    select
        run_id, model, run_tag, base_tag, run_number, benchmark, question_set, strategy, judge, pipeline, null_policy,
        n_planned, scale_minimum, reported_multiplier,
        max(judge_config_hash) as judge_config_hash,
        max(judge_prompt_hash) as judge_prompt_hash,
        max(pipeline_hash) as pipeline_hash,
        sum(total order by question_id) as total,
        sum(n_counted) as n_counted,
        any_value(n_planned) - sum(n_rows) as n_without_row,
        stddev_samp(question_mean order by question_id) as sd,
        sum(n_scored) as n_scored,
        sum(n_excluded) as n_excluded,
        sum(n_out_of_scale) as n_out_of_scale
    from by_question
    group by all
),
averaged as (
    select
        *,
        -- A planned sample without a row is a missing score as well.
        case when null_policy = 'zero'
            then (total + n_without_row * scale_minimum) / n_planned
            else total / n_counted end as mean
    from counted
)
select
    run_id, model, run_tag, base_tag, run_number,
    benchmark, question_set, strategy, judge, judge_config_hash, pipeline, null_policy,
    case when null_policy <> 'strict' or n_scored = n_planned then mean * reported_multiplier end as score,
    case when null_policy <> 'strict' or n_scored = n_planned then sd * reported_multiplier end as sd_questions,
    n_planned,
    n_scored,
    n_planned - n_scored - n_excluded as n_failed,
    n_excluded,
    n_out_of_scale,
    scale_minimum,
    reported_multiplier,
    judge_prompt_hash,
    pipeline_hash
from averaged
order by benchmark, judge, run_id, pipeline, null_policy;
