-- How many answers got the same scores from the same judges: one row per benchmark and list of what each judge gave
-- (the judge's own scores on the reported scale, each piece of evidence once, averaged where it judged the same text
-- of a model more than once), with n answers. Scores are few different numbers, so there are far fewer patterns than answers.
create view score_patterns as
with answers as (
    select benchmark, list({judge: judge, score: reported_score}) as given
    from evidence
    where reported_score is not null
      and answer_hash is not null
    group by model, benchmark, question_id, answer_hash
),
counted as (
    select benchmark, given, count(*) as n, row_number() over () as pattern
    from answers
    group by benchmark, given
),
by_judge as (
    select benchmark, pattern, n, unnest(given).judge as judge, unnest(given).score as score
    from counted
),
averaged as (
    select benchmark, pattern, n, judge, avg(score order by score) as score
    from by_judge
    group by all
),
ordered as (
    select
        benchmark, n, count(*) as n_judges, avg(score order by judge) as mean,
        list({judge: judge, score: score} order by judge) as scores
    from averaged
    group by benchmark, pattern, n
)
select benchmark, n_judges, mean, scores, sum(n)::bigint as n
from ordered
group by all;
