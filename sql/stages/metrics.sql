-- The metrics of runs: mean and spread of their scores under each null policy, with all denominators.
--   legacy: a missing score is left out; zero: it is the scale's minimum; strict: no mean unless every sample has one.
-- What a rule could not decide counts as the scale's minimum in the score, under each policy, and is left out of score_upper.
-- A judge's score outside of the scale, which only imported ones can be, counts as it is under legacy, and is missing
-- under the others.
-- The spread is over questions: samples of the same question are averaged first. Sums have a fixed order, so that the
-- same scores give the same metrics to the last bit. Each row has the single scores that it is made of, as its policy
-- counts them, so that intervals and ties need no others.
-- Parameters: $first_run_id, $last_run_id, between which all these runs are: files with other runs are not read.
-- Relation: plan (run_id, base_tag, run_number, benchmark, n_planned, n_questions, scale_minimum, scale_maximum,
-- reported_multiplier): n_planned samples, and n_questions answers of each consensus strategy.
with by_question as (
    select
        run_id, benchmark, scores.question_set, strategy, judge, pipeline, question_id,
        any_value(scores.model) as model,
        any_value(scores.run_tag) as run_tag,
        max(judge_config_hash) as judge_config_hash,
        max(judge_prompt_hash) as judge_prompt_hash,
        max(pipeline_hash) as pipeline_hash,
        -- Sorted once: an ordered sum or average of each would be a sort of its own.
        list(if(undecided, scale_minimum, score) order by sample_index) as samples,
        list(if(coalesce(out_of_scale, false), scale_minimum, coalesce(score, scale_minimum)) order by sample_index)
            as samples_or_minimum,
        list(if(undecided, scale_minimum, if(out_of_scale, null, score)) order by sample_index) as samples_in_scale,
        list(undecided order by sample_index) as undecided_samples,
        count(*) as n_rows,
        count(score) as n_scored,
        count(*) filter (undecided) as n_undecided,
        count(*) filter (status = 'excluded' and not undecided) as n_excluded,
        count(*) filter (score < scale_minimum or score > scale_maximum) as n_out_of_scale,
        count(*) filter (score is not null and out_of_scale) as n_left_out
    from (select *, status = 'excluded' and starts_with(judge, 'rule:') as undecided from lake.scores) as scores
    join plan using (run_id, benchmark)
    where scores.run_id between $first_run_id and $last_run_id
    group by all
),
counted as (
    select
        run_id, benchmark, question_set, strategy, judge, pipeline,
        any_value(model) as model,
        any_value(run_tag) as run_tag,
        max(judge_config_hash) as judge_config_hash,
        max(judge_prompt_hash) as judge_prompt_hash,
        max(pipeline_hash) as pipeline_hash,
        sum(list_sum(samples) order by question_id) as total,
        sum(list_sum(samples_or_minimum) order by question_id) as total_or_minimum,
        stddev_samp(list_avg(samples) order by question_id) as sd,
        stddev_samp(list_avg(samples_or_minimum) order by question_id) as sd_or_minimum,
        flatten(list(list_transform(samples, lambda _: question_id) order by question_id)) as question_ids,
        flatten(list(samples order by question_id)) as scores,
        flatten(list(samples_or_minimum order by question_id)) as scores_or_minimum,
        flatten(list(samples_in_scale order by question_id)) as scores_in_scale,
        flatten(list(undecided_samples order by question_id)) as undecided,
        sum(n_rows) as n_rows,
        sum(n_scored) as n_scored,
        sum(n_undecided) as n_undecided,
        sum(n_excluded) as n_excluded,
        sum(n_out_of_scale) as n_out_of_scale,
        sum(n_left_out) as n_left_out
    from by_question
    group by all
),
planned as (
    select
        counted.*, base_tag, run_number, scale_minimum, reported_multiplier,
        case when strategy is null then plan.n_planned else n_questions end as n_planned
    from counted
    join plan using (run_id, benchmark)
),
averaged as (
    select
        * replace (case when null_policy = 'legacy' then n_scored else n_scored - n_left_out end as n_scored),
        -- A planned sample without a row is a missing score as well.
        case when null_policy = 'zero' then total_or_minimum + (n_planned - n_rows) * scale_minimum else total end as counted,
        case when null_policy = 'zero' then n_planned else planned.n_scored + n_undecided end as n_counted,
        counted / nullif(n_counted, 0) as mean,
        (counted - n_undecided * scale_minimum) / nullif(n_counted - n_undecided, 0) as mean_upper,
        null_policy <> 'strict' or planned.n_scored - n_left_out + n_undecided = n_planned as has_mean,
        case when null_policy = 'zero' then sd_or_minimum else sd end as spread,
        case null_policy when 'legacy' then scores when 'zero' then scores_or_minimum else scores_in_scale end as counted_scores
    from planned
    cross join (select unnest(['legacy', 'zero', 'strict']) as null_policy)
)
select
    run_id, model, run_tag, base_tag, run_number,
    benchmark, question_set, strategy, judge, judge_config_hash, pipeline, null_policy,
    case when has_mean then mean * reported_multiplier end as score,
    case when has_mean then mean_upper * reported_multiplier end as score_upper,
    case when has_mean then spread * reported_multiplier end as sd_questions,
    n_planned,
    n_scored,
    n_planned - n_scored - n_undecided - n_excluded as n_failed,
    n_undecided,
    n_excluded,
    n_out_of_scale,
    scale_minimum,
    reported_multiplier,
    judge_prompt_hash,
    pipeline_hash,
    question_ids,
    list_transform(counted_scores, lambda score: score * reported_multiplier) as question_scores,
    case when n_undecided > 0 then undecided end as undecided
from averaged
order by benchmark, judge, run_id, pipeline, null_policy;
