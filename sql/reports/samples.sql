-- The single scores of some runs, with the question and the category of each as a number, on the reported scale.
with chosen as (
    select distinct benchmark, question_id
    from questions
    where list_contains($question_sets, question_set)
),
categories as (
    select benchmark, question_id, min(category) as category
    from questions
    group by all
)
select
    run_id, judge, benchmark, count(*) as n_rows,
    list(hash(question_id) order by question_id, sample_index) as questions,
    list(hash(category) order by question_id, sample_index) as categories,
    count(distinct category) as n_categories,
    list(score order by question_id, sample_index) as scores
from reported_scores
left join categories using (benchmark, question_id)
where list_contains($run_ids, run_id)
  and list_contains($judges, judge)
  and pipeline = $pipeline
  and strategy is null
  and ((benchmark, question_id) in (from chosen) or benchmark not in (select benchmark from chosen))
group by all
