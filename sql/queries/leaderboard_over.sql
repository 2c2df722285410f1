-- The leaderboard with the choices that published tables make. question_set: one set or several, comma-separated: only
-- their questions count, for runs that were asked all of them; benchmarks that are not named are over the runs' own
-- sets. object_scores: none (an object in place of a score is no score), or recovered (the number inside of it).
-- $question_set: question sets = null
-- $policy: null policy = legacy
-- $object_scores: object scores = none
with own as (
    select * exclude (question_set), question_set as own_set
    from current_metrics
    where null_policy = $policy
),
asked as (
    select benchmark, question_set, question_id
    from lake.questions
    where list_contains(string_split($question_set, ','), question_set)
),
-- How much of a set that runs have is in the set that is asked for.
compared as (
    select
        of_runs.benchmark, of_runs.question_set as own_set, wanted.question_set,
        count(distinct of_runs.question_id) as own_size,
        wanted.size,
        count(*) filter (asked.question_id is not null) as n_shared
    from lake.questions as of_runs
    join (select benchmark, question_set, count(*) as size from asked group by all) as wanted using (benchmark)
    left join asked
        on asked.benchmark = of_runs.benchmark
       and asked.question_set = wanted.question_set
       and asked.question_id = of_runs.question_id
    group by all
),
targets as (
    select own.*, question_set, own_size, size
    from own
    join compared using (benchmark, own_set)
    where n_shared = size
    union all by name
    select own.*, own_set as question_set, null as own_size, null as size
    from own
    where benchmark not in (select benchmark from asked)
),
-- What the roll-up has need not be counted.
rolled_up as (
    from targets
    where question_set = own_set
      and $object_scores = 'none'
),
to_count as materialized (
    select
        row_number() over () as target, * exclude (
            score, score_upper, sd_questions, n_planned, n_scored, n_failed, n_undecided, n_excluded, n_out_of_scale
        ),
        n_planned as own_planned
    from targets
    where question_set <> own_set
       or $object_scores <> 'none'
),
recovered as (
    select run_id, benchmark, judge, question_id, sample_index, answer_hash, recovered_score
    from lake.judgements
    where recovered_score is not null
      and not superseded
      and $object_scores = 'recovered'
),
counted as (
    select
        target, scores.question_id, scores.status,
        case when $policy = 'legacy' or scores.out_of_scale is not true
            then coalesce(scores.score, recovered_score) end as given,
        scores.status = 'excluded' and starts_with(scores.judge, 'rule:') as undecided,
        case when $policy = 'zero' or undecided then coalesce(given, scale_minimum) else given end as counted_score
    from to_count
    join lake.scores
        on scores.run_id = to_count.run_id
       and scores.benchmark = to_count.benchmark
       and scores.judge = to_count.judge
       and scores.pipeline = to_count.pipeline
       and scores.strategy is not distinct from to_count.strategy
    left join recovered
        on recovered.run_id = scores.run_id
       and recovered.benchmark = scores.benchmark
       and recovered.judge = scores.judge
       and recovered.question_id = scores.question_id
       and recovered.sample_index = scores.sample_index
       and recovered.answer_hash is not distinct from scores.answer_hash
    where to_count.size is null
       or (to_count.benchmark, to_count.question_set, scores.question_id) in (from asked)
),
by_question as (
    select
        target, question_id,
        avg(counted_score) as question_mean,
        sum(counted_score) as total,
        count(counted_score) as n_counted,
        count(*) as n_rows,
        count(given) as n_scored,
        count(*) filter (undecided) as n_undecided,
        count(*) filter (status = 'excluded' and not undecided) as n_excluded
    from counted
    group by all
),
by_target as (
    select
        target,
        sum(total order by question_id) as total,
        sum(n_counted) as n_counted,
        stddev_samp(question_mean order by question_id) as sd,
        sum(n_rows)::bigint as n_rows,
        sum(n_scored)::bigint as n_scored,
        sum(n_undecided)::bigint as n_undecided,
        sum(n_excluded)::bigint as n_excluded
    from by_question
    group by all
),
planned as (
    select
        *,
        -- Of a limited run it is only known what it has rows of.
        case
            when size is null then own_planned
            when own_planned >= own_size then own_planned - (own_size - size) * (own_planned // own_size)
            else n_rows
        end as n_planned
    from by_target
    join to_count using (target)
),
counted_anew as (
    select
        model, run_tag, judge, benchmark, question_set, pipeline, strategy,
        $policy <> 'strict' or n_scored + n_undecided = n_planned as has_mean,
        if($policy = 'zero', n_planned - n_rows, 0) as n_without_row,
        total + n_without_row * scale_minimum as counted,
        n_counted + n_without_row as n,
        case when has_mean then counted / nullif(n, 0) * reported_multiplier end as score,
        case when has_mean then
            (counted - n_undecided * scale_minimum) / nullif(n - n_undecided, 0) * reported_multiplier end as score_upper,
        case when has_mean then sd * reported_multiplier end as sd_questions,
        n_planned, n_scored, n_planned - n_scored - n_undecided - n_excluded as n_failed, n_undecided, n_excluded,
        $policy as null_policy, run_id, base_tag, run_number
    from planned
)
select * exclude (has_mean, n_without_row, counted, n)
from counted_anew
union all
select
    model, run_tag, judge, benchmark, question_set, pipeline, strategy,
    score, score_upper, sd_questions, n_planned, n_scored, n_failed, n_undecided, n_excluded, null_policy, run_id, base_tag,
    run_number
from rolled_up
order by benchmark, judge, score desc nulls last, model, run_tag;
