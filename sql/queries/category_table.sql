-- Mean score of each category of a benchmark's questions under one judge, a column each; n over all categories.
-- $judge: judge
-- $benchmark: benchmark
-- $pipeline: pipeline = baseline
select
    question_set, model, run_tag,
    map_from_entries(list((coalesce(category, 'no category'), round(score, 2)) order by category)) as scores,
    sum(n_scored)::bigint as n_scored,
    sum(n_samples)::bigint as n_samples
from category_scores
where judge = $judge
  and benchmark = $benchmark
  and pipeline = $pipeline
  and strategy is null
group by question_set, model, run_tag
order by question_set, model, run_tag;
