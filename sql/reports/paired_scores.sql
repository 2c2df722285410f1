-- Two sides of a comparison, question by question: one row per judge (null: the mean of those that scored both sides),
-- question set and question that one side has, on the reported scale. Samples and runs of a side are averaged first.
with policy_scales as (
    select benchmark, max(scale_minimum * reported_multiplier) as lowest
    from metrics
    group by benchmark
),
known_scales as (
    select unnest($scales, recursive := true)
),
chosen as (
    select distinct benchmark, question_set, question_id
    from questions
    where list_contains($question_sets, question_set)
),
categories as (
    select benchmark, question_id, min(category) as category
    from questions
    group by all
),
own as (
    select
        list_contains($first, run_id) as is_a, benchmark, question_id, score,
        coalesce($judged_as[list_position($linked_judges, judge)], judge) as judge,
        coalesce(chosen.question_set, reported_scores.question_set) as question_set,
        case
            when $null_policy = 'legacy' then score
            when reported_scores.out_of_scale then if($null_policy = 'zero', lowest, null)
            when $null_policy = 'zero' then coalesce(score, lowest)
            else score
        end as counted,
        undecided,
        coalesce(score < minimum or score > maximum, false) as out_of_scale
    from reported_scores
    join policy_scales using (benchmark)
    left join known_scales using (benchmark)
    left join chosen using (benchmark, question_id)
    where list_contains($run_ids, run_id)
      and pipeline = $pipeline
      and strategy is null
      and ($judges is null or list_contains($judges, judge) or list_contains($linked_judges, judge))
      and ($benchmarks is null or list_contains($benchmarks, benchmark))
      and (chosen.question_id is not null or benchmark not in (select benchmark from chosen))
),
by_question as (
    select
        is_a, judge, benchmark, question_set, question_id,
        avg(counted) as score, avg(counted) filter (not undecided) as decided, count(*) filter (undecided) as n_undecided,
        count(*) as n_samples, count(*) - count(if($null_policy = 'strict', counted, score)) as n_missing,
        count(*) filter (out_of_scale) as n_out_of_scale
    from own
    group by all
),
paired as (
    select
        judge, benchmark, question_set, question_id,
        a.score as score_a, b.score as score_b,
        score_a is not null and score_b is not null as scored_both,
        a.decided as decided_a, b.decided as decided_b,
        coalesce(a.n_undecided, 0) as undecided_a, coalesce(b.n_undecided, 0) as undecided_b,
        a.n_samples as samples_a, b.n_samples as samples_b,
        coalesce(a.n_missing, 0) as missing_a, coalesce(b.n_missing, 0) as missing_b,
        coalesce(a.n_out_of_scale, 0) as out_of_scale_a, coalesce(b.n_out_of_scale, 0) as out_of_scale_b
    from (from by_question where is_a) as a
    full join (from by_question where not is_a) as b using (judge, benchmark, question_set, question_id)
),
-- What a judge judged of both; other judges and sets have nothing to compare.
shared as (
    from paired
    qualify count(*) filter (scored_both) over (partition by judge, benchmark, question_set) > 0
),
-- Both sides of a question have the same judges: a judge that scored one side only would move it by its leniency.
of_all_judges as (
    select
        null as judge, benchmark, question_set, question_id,
        avg(score_a order by judge) filter (scored_both) as score_a,
        avg(score_b order by judge) filter (scored_both) as score_b,
        avg(decided_a order by judge) filter (decided_a is not null and decided_b is not null) as decided_a,
        avg(decided_b order by judge) filter (decided_a is not null and decided_b is not null) as decided_b,
        max(undecided_a) as undecided_a, max(undecided_b) as undecided_b,
        list(judge order by judge) filter (scored_both) as judges,
        min(samples_a) as samples_a, min(samples_b) as samples_b,
        max(missing_a) as missing_a, max(missing_b) as missing_b,
        sum(out_of_scale_a) filter (scored_both) as out_of_scale_a,
        sum(out_of_scale_b) filter (scored_both) as out_of_scale_b
    from shared
    group by benchmark, question_set, question_id
)
select
    judge, question_set as benchmark, benchmark as benchmark_name, question_id, category,
    score_a, score_b, decided_a, decided_b, undecided_a::bigint as undecided_a, undecided_b::bigint as undecided_b,
    samples_a::bigint as samples_a, samples_b::bigint as samples_b,
    missing_a::bigint as missing_a, missing_b::bigint as missing_b,
    coalesce(out_of_scale_a, 0)::bigint as out_of_scale_a, coalesce(out_of_scale_b, 0)::bigint as out_of_scale_b,
    coalesce(judges, case when scored_both then [judge] end, []) as judges
from (from shared union all by name from of_all_judges)
left join categories using (benchmark, question_id)
order by
    judge is not null, judge, coalesce(list_position($order, benchmark_name), 1000), benchmark_name, question_set,
    question_id
