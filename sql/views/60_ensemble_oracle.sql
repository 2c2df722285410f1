-- How far choosing among the shared samples could go: per run and benchmark the share of planned questions that at least
-- one of them answers right (oracle_accuracy), that all do, and the mean accuracy of a sample. Failures are wrong.
create view ensemble_oracle as
with planned as (
    select run_id, benchmark, judge, max(n_planned) as n_planned
    from lake.metrics
    where strategy is not null
    group by all
),
counted as (
    select
        run_id, model, run_tag, benchmark, question_set, judge,
        coalesce(max(n_planned), count(*)) as n_questions,
        max(n_samples) as n_samples,
        count(*) filter (n_correct > 0) as n_any_correct,
        count(*) filter (n_correct = n_samples) as n_all_correct,
        sum(n_correct / n_samples) as sum_of_shares
    from ensemble_questions
    left join planned using (run_id, benchmark, judge)
    group by all
)
select
    * exclude (sum_of_shares),
    n_any_correct / n_questions as oracle_accuracy,
    n_all_correct / n_questions as unanimous_accuracy,
    sum_of_shares / n_questions as mean_sample_accuracy
from counted;
