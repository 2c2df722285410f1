-- One row per model, question and answer text with what each judge gave it: the judge's own scores on the reported
-- scale (pipeline baseline), averaged where it judged the same text more than once.
create view scores_by_answer as
with by_judge as (
    select model, benchmark, question_id, answer_hash, judge, avg(score) as score
    from reported_scores
    where pipeline = 'baseline'
      and score is not null
      and answer_hash is not null
    group by all
)
select
    model, benchmark, question_id, answer_hash,
    count(*) as n_judges,
    avg(score) as mean,
    list({judge: judge, score: score}) as scores
from by_judge
group by all;
