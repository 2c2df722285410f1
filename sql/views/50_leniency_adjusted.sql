-- Each score of metrics beside the same less its judge's leniency, so that runs with other judges can be compared.
-- Leniency: the judge's effect in score = answer + judge, by least squares per benchmark over the answers (same text)
-- that two judges or more scored, on the reported scale, without passes, each piece of evidence once; a judge with two prompts is two judges here.
-- Its mean over connected_judges, weighted by n_shared_answers, is 0: adjusted scores compare only within those judges,
-- which are linked by common answers. Null for a judge that shares no answer. Plain samples only.
create view leniency_adjusted as
with recursive given as (
    select
        benchmark, hash(model, question_id, answer_hash) as answer, {judge: judge, prompt: judge_prompt_hash} as rater,
        avg(reported_score) as score
    from evidence
    where strategy is null
      and reported_score is not null
      and answer_hash is not null
    group by all
),
shared as (
    select benchmark, answer, avg(score) as mean, count(*) as n_judges
    from given
    group by all
    having count(*) > 1
),
raters as (
    select benchmark, rater, count(*) as n_shared_answers, avg(score - mean) as difference
    from given
    join shared using (benchmark, answer)
    group by all
),
together as (
    select benchmark, one.rater, other.rater as other, sum(1 / n_judges) as share
    from given as one
    join given as other using (benchmark, answer)
    join shared using (benchmark, answer)
    group by all
),
-- The normal equations: a judge's leniency is its difference, and the mean over its answers of the mean leniency of
-- the answer's judges. With the constant 1 as one judge more (null) they are a matrix, whose powers converge.
equations as (
    select benchmark, rater, other, share / n_shared_answers as weight
    from together
    join raters using (benchmark, rater)
    union all
    select benchmark, rater, null, difference
    from raters
    union all
    select distinct benchmark, null, null, 1
    from raters
),
powers as (
    select 0 as doublings, *
    from equations
    union all
    select first.doublings + 1, first.benchmark, first.rater, second.other, sum(first.weight * second.weight)
    from powers as first
    join powers as second
      on first.benchmark = second.benchmark
     and first.other is not distinct from second.rater
    where first.doublings < 14
    group by all
),
leniencies as (
    select
        benchmark, rater,
        -- Sums over many answers have no fixed order: without their last digits they are the same each time.
        round(max(weight) filter (other is null), 6) as leniency,
        list_sort(list(distinct other.judge) filter (other is not null and weight > 0)) as connected_judges
    from powers
    where doublings = 14
    group by benchmark, rater
)
select
    model, run_tag, judge, judge_prompt_hash, current_metrics.benchmark, question_set, pipeline, pipeline_hash, null_policy,
    score, leniency, score - leniency as adjusted_score, n_shared_answers, connected_judges,
    n_planned, n_scored, n_failed, n_undecided, n_excluded, run_id
from current_metrics
left join (from leniencies join raters using (benchmark, rater)) as effects
  on current_metrics.benchmark = effects.benchmark
 and {judge: judge, prompt: judge_prompt_hash} = rater
where strategy is null;
