-- One row per run × question: how many of the shared samples are right, how many agree, and whether the answer that most
-- of them give is right (as read by the rule; the first of equally frequent ones; the first sample where none is read).
create view ensemble_questions as
with samples as (
    select verdicts.*, judgements.extracted
    from ensemble_verdicts as verdicts
    left join lake.judgements as judgements
      on judgements.run_id = verdicts.run_id
     and judgements.benchmark = verdicts.benchmark
     and judgements.question_id = verdicts.question_id
     and judgements.sample_index = verdicts.sample_index
     and judgements.answer_hash is not distinct from verdicts.answer_hash
     and judgements.judge = split_part(verdicts.judge, '+', 1)
     and judgements.strategy is null
     and not judgements.superseded
    where verdicts.strategy is null
      and correct is not null
),
voted as (
    select
        *,
        case when extracted is null then 0
            else count(*) over (partition by run_id, benchmark, question_id, extracted) end as votes
    from samples
)
select
    run_id, model, run_tag, benchmark, question_set, question_id, judge,
    count(*) as n_samples,
    count(*) filter (correct) as n_correct,
    count(distinct extracted) as n_different,
    max(votes) as most_votes,
    max(votes) / count(*) as largest_share,
    first(correct order by votes desc, sample_index) as plurality_correct
from voted
group by all;
