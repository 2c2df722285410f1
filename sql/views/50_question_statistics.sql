-- How each question behaves under each judge, over runs and each piece of evidence once: difficulty (mean score on the reported scale; low is hard),
-- sd, and discrimination (Pearson correlation of the question's score with the run's mean over its other scored
-- questions of the set; null without variance). n_runs is what all of them are over.
create view question_statistics as
with by_run as (
    select run_id, judge, benchmark, question_set, question_id, avg(reported_score) as score
    from (select *, unnest(question_sets) as question_set from evidence)
    where strategy is null
      and reported_score is not null
    group by all
),
runs_in_all as (
    select run_id, judge, benchmark, question_set, sum(score) as total, count(*) as n_questions
    from by_run
    group by all
),
with_rest as (
    select by_run.*, (total - score) / nullif(n_questions - 1, 0) as mean_of_others
    from by_run
    join runs_in_all using (run_id, judge, benchmark, question_set)
),
statistics as (
    select
        benchmark, question_set, judge, question_id,
        avg(score) as difficulty,
        stddev_samp(score) as sd,
        nullif(corr(score, mean_of_others), 'nan'::double) as discrimination,
        count(*) as n_runs
    from with_rest
    group by all
)
select
    benchmark, question_set, judge, position, category, difficulty, sd, discrimination, n_runs, question_id
from statistics
left join lake.questions using (benchmark, question_set, question_id);
