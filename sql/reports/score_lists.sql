-- All scores of some runs without passes, on the reported scale: one row per run, judge and question set, with the scores
-- in the order of the questions' places, these places, and the ends of the scale. Samples of a question are averaged.
with known_scales as (
    select unnest($scales, recursive := true)
),
by_question as (
    select model, run_tag, judge, benchmark, question_set, position, avg(score)::float as score
    from reported_scores
    join questions using (benchmark, question_set, question_id)
    where pipeline = 'baseline'
      and strategy is null
      and score is not null
      and (
          $tags is null and $sources is null
          or run_id in (from selected_runs(null, $tags, $sources))
      )
      and ($run_ids is null or list_contains($run_ids, run_id))
    group by all
)
select
    model, run_tag, judge, question_set,
    list(score order by position) as scores, list(position::integer order by position) as positions,
    any_value(minimum)::float as lowest, any_value(maximum)::float as highest
from by_question
left join known_scales using (benchmark)
group by model, run_tag, judge, question_set
order by judge, question_set, model, run_tag
