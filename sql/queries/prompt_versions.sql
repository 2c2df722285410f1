-- The versions of each judge's prompt with what they judged, and on the same answers the change from the first version
-- of the same model (0 for itself). Superseded judgements count too, so an edited template is compared with what it was.
-- prompt_version: start of the hash, or epoch of imported ones; label: its name in prompts, where its text was recorded.
-- Means are over n_answers texts, on the reported scale. When imported judgements were made is not known: their times are
-- null, and they come before all others. n_in_force: of what stands, each piece of evidence once; n_runs: runs that have it.
-- $judge_model: judge model = null
-- $benchmark: benchmark = null
with judged as (
    select
        coalesce(judge_model, judge) as judge_model, benchmark, judge,
        coalesce(left(judge_prompt_hash, 12), judge_prompt_version, 'unknown') as prompt_version,
        run_id, judgements.model, question_id, answer_hash, superseded, judge_prompt_hash, request_hash,
        case when request_hash is not null then created_at end as judged_at,
        score * reported_multiplier as score
    from judgements
    join (select benchmark, max(reported_multiplier) as reported_multiplier from lake.metrics group by benchmark)
        using (benchmark)
    where score is not null
      and score_source is distinct from 'rule'
      and run_id not in (select run_id from lake.runs where superseded_by is not null)
      and ($judge_model is null or coalesce(judge_model, judge) = $judge_model)
      and ($benchmark is null or benchmark = $benchmark)
),
by_answer as (
    select judge_model, benchmark, judge, prompt_version, model, question_id, answer_hash, avg(score) as score
    from judged
    group by all
),
versions as (
    select
        judge_model, benchmark, judge, prompt_version,
        any_value(judge_prompt_hash) as prompt_hash,
        count(distinct run_id) as n_runs,
        count(distinct (model, question_id, answer_hash, request_hash)) filter (superseded is not true) as n_in_force,
        min(judged_at) as first_judged_at,
        max(judged_at) as last_judged_at
    from judged
    group by all
),
first_versions as (
    from versions
    -- The judge named as its model has the prompts as they are.
    qualify row_number() over (
        partition by judge_model, benchmark
        order by judge <> judge_model, first_judged_at nulls first, judge, prompt_version
    ) = 1
),
first_scores as (
    select by_answer.* exclude (judge, prompt_version)
    from by_answer
    join first_versions using (judge_model, benchmark, judge, prompt_version)
),
compared as (
    select
        judge_model, benchmark, judge, prompt_version,
        count(*) as n_answers,
        avg(by_answer.score) as mean_score,
        count(first_scores.score) as n_common,
        avg(by_answer.score - first_scores.score) as change
    from by_answer
    left join first_scores using (judge_model, benchmark, model, question_id, answer_hash)
    group by all
)
select
    judge_model, benchmark, judge, prompt_version, label, n_runs, n_answers, n_in_force, mean_score, n_common, change,
    first_judged_at, last_judged_at
from compared
join versions using (judge_model, benchmark, judge, prompt_version)
left join (from prompts select prompt_hash, label where position = 1) using (prompt_hash)
order by judge_model, benchmark, judge <> judge_model, first_judged_at nulls first, judge, prompt_version;
