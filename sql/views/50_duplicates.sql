-- What is there more than once. Kind judgement: one sample has several judgements in force by one judge; question:
-- a run has several samples of a question (planned, or a row doubled in an imported file), all in its mean;
-- answer: the same text under several models (`models`), on whatever question.
create view duplicates as
with by_sample as (
    select run_id, any_value(model) as model, benchmark, judge, strategy, question_id, sample_index, count(*) as n
    from lake.judgements
    where not superseded
    group by run_id, benchmark, judge, strategy, question_id, sample_index
)
select
    'judgement' as kind, benchmark, question_id, n, run_id, judge, sample_index,
    null::varchar as answer_hash, [model] as models
from by_sample
where n > 1
union all by name
select 'question' as kind, benchmark, question_id, count(*) as n, run_id, judge, [any_value(model)] as models
from by_sample
group by run_id, benchmark, judge, strategy, question_id
having count(*) > 1
union all by name
select
    'answer' as kind, benchmark, question_id, count(*) as n, answer_hash,
    list(distinct model order by model) as models
from lake.answers
where answer_state = 'text'
group by benchmark, question_id, answer_hash
having min(model) <> max(model);
