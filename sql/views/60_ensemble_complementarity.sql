-- Whether two strategies (kind strategy) or two models that the samples come from (kind member: the first sample of each)
-- answer the same questions right: per run, benchmark and pair, questions that both, only a, only b, and neither gets right.
create view ensemble_complementarity as
with answered as (
    select run_id, model, run_tag, benchmark, question_set, question_id, judge, 'strategy' as kind,
        strategy as name, correct
    from ensemble_verdicts
    where strategy is not null
      and correct is not null
    union all
    select verdicts.run_id, verdicts.model, verdicts.run_tag, verdicts.benchmark, verdicts.question_set,
        verdicts.question_id, judge, 'member' as kind, answer_model as name, correct
    from ensemble_verdicts as verdicts
    join lake.answers using (run_id, benchmark, question_id, sample_index)
    where strategy is null
      and correct is not null
      and answer_model is not null
    qualify row_number() over (
        partition by verdicts.run_id, verdicts.benchmark, verdicts.question_id, answer_model
        order by sample_index
    ) = 1
)
select
    a.run_id, a.model, a.run_tag, a.benchmark, a.question_set, a.judge, a.kind,
    a.name as a,
    b.name as b,
    count(*) as n_questions,
    count(*) filter (a.correct and b.correct) as n_both,
    count(*) filter (a.correct and not b.correct) as n_only_a,
    count(*) filter (b.correct and not a.correct) as n_only_b,
    count(*) filter (not a.correct and not b.correct) as n_neither
from answered as a
join answered as b
  on a.run_id = b.run_id
 and a.benchmark = b.benchmark
 and a.question_id = b.question_id
 and a.judge = b.judge
 and a.kind = b.kind
 and a.name < b.name
group by all;
