-- Mean score on the reported scale per model × run tag × judge × benchmark × category of questions, with its
-- denominators; samples without a score are left out of the mean, and what a rule
-- could not decide is wrong in score and left out of score_upper. Category null: the set has no categories.
create view category_scores as
select
    any_value(model) as model, any_value(run_tag) as run_tag, judge, benchmark, question_set, category,
    pipeline, strategy,
    avg(score) as score,
    count(*) as n_samples,
    count(score) filter (not undecided) as n_scored,
    avg(score) filter (not undecided) as score_upper,
    count(*) filter (undecided) as n_undecided,
    count(*) filter (status = 'excluded' and not undecided) as n_excluded,
    count(*) filter (score is null and status <> 'excluded') as n_failed,
    run_id
from reported_scores
left join lake.questions using (benchmark, question_set, question_id)
group by run_id, judge, benchmark, question_set, category, pipeline, strategy;
