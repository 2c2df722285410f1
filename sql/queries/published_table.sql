-- The table that the old suite published: for each model the judges' averages, the rows of all judges pooled (ALL),
-- and its Average (ex-GPT4), with its rules: missing and object scores are left out, a benchmark's mean is over rows,
-- an average over the benchmarks that are there. source: the tree whose table it is; without it there is one for each
-- tree, and one of the runs that were not imported (source null). Kept to check old numbers: pooling rows of different
-- judges favours models that lenient judges have seen; multi_judge compares over shared judges.
-- $question_set: question sets = tengu@115
-- $source: source = null
-- $tag: tag = null
-- $not_judges = oldjudgeprompt
with asked as (
    select benchmark, question_id
    from lake.questions
    where list_contains(string_split($question_set, ','), question_set)
),
rows as (
    select source, reported_scores.model, judge, benchmark, question_id, score
    from reported_scores
    join lake.runs as runs using (run_id)
    where runs.superseded_by is null
      and ($source is null or source = $source)
      and pipeline = 'baseline'
      and score is not null
      and (
        $tag is null
        or reported_scores.run_tag = $tag
        or starts_with(reported_scores.run_tag, $tag || '-gen')
        or runs.import_tag = $tag
      )
      and not contains(judge, $not_judges)
      and (benchmark not in (select benchmark from asked) or (benchmark, question_id) in (from asked))
),
means as (
    select source, model, judge, benchmark, avg(score) as score, count(*) as n
    from rows
    group by all
    union all by name
    select source, model, 'ALL' as judge, benchmark, avg(score) as score, count(*) as n
    from rows
    group by all
),
averages as (
    select source, model, judge, 'average' as benchmark, avg(score) as score, sum(n)::bigint as n
    from means
    group by all
)
from means
union all by name
from averages
union all by name
-- Its filter leaves out what has GPT4 in its name, GPT4.1 too, but not ALL, which contains them.
select source, model, 'EX-GPT4' as judge, 'average' as benchmark, avg(score) as score, sum(n)::bigint as n
from averages
where not starts_with(judge, 'gpt-4')
group by all
order by source, model, judge, benchmark;
