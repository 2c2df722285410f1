-- What each pipeline of passes changes on each judge's leaderboard of a benchmark: score and rank without and with it.
-- Largest loss first; rank is among the runs of the same judge, benchmark and question set that have the pipeline.
-- $pipeline: pipeline = null
-- $benchmark: benchmark = null
-- $judge: judge = null
with ranked as (
    select
        *,
        rank() over (partition by judge, benchmark, question_set, pipeline order by score desc) as rank
    from leaderboard
    where strategy is null
      and score is not null
),
compared as (
    select
        passed.pipeline, passed.judge, passed.benchmark, passed.question_set, passed.model, passed.run_tag,
        baseline.score as baseline_score,
        passed.score,
        passed.score - baseline.score as change,
        rank() over (
            partition by passed.judge, passed.benchmark, passed.question_set, passed.pipeline
            order by baseline.score desc
        ) as baseline_rank,
        passed.rank,
        passed.n_scored, passed.n_planned
    from ranked as passed
    join ranked as baseline
        on baseline.run_id = passed.run_id
       and baseline.judge = passed.judge
       and baseline.benchmark = passed.benchmark
       and baseline.question_set = passed.question_set
       and baseline.pipeline = 'baseline'
    where passed.pipeline <> 'baseline'
)
select *
from compared
where ($pipeline is null or pipeline = $pipeline)
  and ($benchmark is null or benchmark = $benchmark)
  and ($judge is null or judge = $judge)
order by change, pipeline, judge, benchmark, model, run_tag;
