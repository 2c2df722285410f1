-- Where a text stands, upper and lower case alike: in $what (questions, answers or judgements), with what is around it,
-- and the score of it: of a judgement its own, of an answer the mean of its judges, on the reported scale.
with found as (
    select null as run_id, null as model, null as run_tag, null as judge, benchmark, question_set, question_id, question as text
    from questions
    where $what = 'questions'
      and regexp_matches(question, regexp_escape($text), 'i')
    union all
    select run_id, model, run_tag, null as judge, benchmark, question_set, question_id, answer as text
    from answers
    where $what = 'answers'
      and ($benchmark is null or benchmark = $benchmark)
      and ($model is null or model = $model)
      and regexp_matches(answer, regexp_escape($text), 'i')
    union all
    select run_id, model, run_tag, judge, benchmark, question_set, question_id, judge_output as text
    from judgements
    where $what = 'judgements'
      and not superseded
      and ($benchmark is null or benchmark = $benchmark)
      and ($model is null or model = $model)
      and regexp_matches(judge_output, regexp_escape($text), 'i')
),
shown as (
    select *
    from found
    limit $most
)
select
    run_id, model, run_tag, judge, benchmark, question_set, position,
    (
        select avg(score)
        from reported_scores as given
        where given.run_id = shown.run_id
          and given.question_id = shown.question_id
          and given.question_set = shown.question_set
          and given.pipeline = 'baseline'
          and given.strategy is null
          and (shown.judge is null or given.judge = shown.judge)
    ) as score,
    substring(text, greatest(strpos(lower(text), lower($text)) - 80, 1), 200 + length($text)) as excerpt
from shown
join questions using (benchmark, question_set, question_id)
order by benchmark, question_set, position, model, run_tag, judge
