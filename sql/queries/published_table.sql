-- The table that the old suite published: for each model the judges' averages, the rows of all judges pooled (ALL),
-- and its Average (ex-GPT4), with its rules: missing and object scores are left out, a benchmark's mean is over rows,
-- an average over the benchmarks that are there. Kept to check old numbers: pooling rows of different judges
-- favours models that lenient judges have seen; multi_judge compares over shared judges.
-- $question_set = tengu@115
-- $tag = null
-- $not_judges = oldjudgeprompt
with asked as (
    select benchmark, question_id
    from lake.questions
    where list_contains(string_split($question_set, ','), question_set)
),
rows as (
    select model, judge, benchmark, question_id, score
    from reported_scores
    where pipeline = 'baseline'
      and score is not null
      and ($tag is null or run_tag = $tag or starts_with(run_tag, $tag || '-gen'))
      and not contains(judge, $not_judges)
      and (benchmark not in (select benchmark from asked) or (benchmark, question_id) in (from asked))
),
means as (
    select model, judge, benchmark, avg(score) as score, count(*) as n
    from rows
    group by all
    union all by name
    select model, 'ALL' as judge, benchmark, avg(score) as score, count(*) as n
    from rows
    group by all
),
averages as (
    select model, judge, 'average' as benchmark, avg(score) as score, sum(n)::bigint as n
    from means
    group by all
)
from means
union all by name
from averages
union all by name
-- Its filter leaves out what has GPT4 in its name, GPT4.1 too, but not ALL, which contains them.
select model, 'EX-GPT4' as judge, 'average' as benchmark, avg(score) as score, sum(n)::bigint as n
from averages
where not starts_with(judge, 'gpt-4')
group by all
order by model, judge, benchmark;
