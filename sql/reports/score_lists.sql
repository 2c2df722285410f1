-- All scores of some runs without passes, on the reported scale: one row per run, judge and question set, with the scores
-- in the order of the questions' places and these places. Samples of a question are averaged.
with by_question as (
    select model, run_tag, judge, question_set, position, avg(score)::float as score
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
    list(score order by position) as scores, list(position::integer order by position) as positions
from by_question
group by all
order by judge, question_set, model, run_tag
