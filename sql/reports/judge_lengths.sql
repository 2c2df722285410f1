-- How each judge's scores go with the length of the answers (rank correlation), over plain answers without passes. All
-- answers are read for it.
with own as (
    select judge, benchmark, run_id, question_id, answer_hash, reported_score as score
    from evidence
    where strategy is null
      and reported_score is not null
),
ranked as (
    select
        judge,
        rank() over (partition by judge order by score) as score_rank,
        rank() over (partition by judge order by characters) as length_rank
    from own
    join (
        select distinct run_id, benchmark, question_id, answer_hash, length(answer) as characters from answers
    ) as lengths using (run_id, benchmark, question_id, answer_hash)
)
select judge, round(corr(score_rank, length_rank), 3) as length_correlation
from ranked
group by judge
