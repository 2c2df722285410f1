-- Metrics of before format 6 with the single scores that they are made of, as sql/stages/metrics.sql has them since.
-- $scales: rows of benchmark and minimum, the lowest score on the reported scale, for metrics that do not tell it.
with known_scales as (
    select unnest($scales, recursive := true)
),
single as (
    select
        run_id, benchmark, question_set, strategy, judge, pipeline,
        list(question_id order by question_id, sample_index) as ids,
        list(score order by question_id, sample_index) as legacy,
        list(if(out_of_scale, null, score) order by question_id, sample_index) as in_scale
    from lake.scores
    where ($run_ids is null or list_contains($run_ids, run_id))
      and ($benchmark is null or benchmark = $benchmark)
    group by all
)
select metrics.* replace (
    coalesce(question_ids, ids, []) as question_ids,
    coalesce(question_scores, list_transform(
        case null_policy when 'legacy' then legacy else in_scale end,
        lambda score: coalesce(
            score * reported_multiplier,
            if(null_policy = 'zero', coalesce(scale_minimum * reported_multiplier, minimum), null)
        )
    ), []) as question_scores
)
from lake.metrics
left join known_scales on known_scales.benchmark = metrics.benchmark
left join single
    on single.run_id = metrics.run_id
   and single.benchmark = metrics.benchmark
   and single.question_set is not distinct from metrics.question_set
   and single.strategy is not distinct from metrics.strategy
   and single.judge = metrics.judge
   and single.pipeline = metrics.pipeline
where ($run_ids is null or list_contains($run_ids, metrics.run_id))
  and ($benchmark is null or metrics.benchmark = $benchmark)
