-- Whether samples that agree are right: per run and benchmark, questions by the largest share of their shared samples that
-- give the same answer (agreement 0.8: above 0.6, up to 0.8; 0: none could be read), with the accuracy of that answer.
create view ensemble_agreement as
select
    run_id, model, run_tag, benchmark, question_set, judge,
    ceil(5 * most_votes / n_samples) / 5 as agreement,
    count(*) as n_questions,
    count(*) filter (plurality_correct) as n_correct,
    avg(plurality_correct::integer) as plurality_accuracy,
    avg(n_correct / n_samples) as mean_sample_accuracy
from ensemble_questions
group by all;
