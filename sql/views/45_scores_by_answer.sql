-- One row per model, question and answer text with what each judge gave it: the judge's own scores on the reported
-- scale, each piece of evidence once, averaged where it judged the same text more than once.
create view scores_by_answer as
with by_judge as (
    select model, benchmark, question_id, answer_hash, judge, avg(reported_score) as score
    from evidence
    where reported_score is not null
      and answer_hash is not null
    group by all
)
select
    model, benchmark, question_id, answer_hash,
    count(*) as n_judges,
    avg(score) as mean,
    list_sort(list({judge: judge, score: score})) as scores
from by_judge
group by all;
