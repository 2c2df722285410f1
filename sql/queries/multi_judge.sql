-- The multi-judge leaderboard of a set of judges ($judges, separated by commas; null: the set that most runs share).
-- $judges: judges = null
-- $benchmark: benchmark or overall = overall
-- $pipeline: pipeline = baseline
with own as (
    from multi_judge_leaderboard
    where benchmark = $benchmark
      and pipeline = $pipeline
      and strategy is null
),
chosen as (
    select coalesce(list_sort(string_split($judges, ',')), max_by(judges, (n_runs, judges))) as chosen_judges
    from own
)
select judges, asked, rank, model, run_tag, score, score_upper, n_scored, n_planned, n_failed, n_undecided, n_excluded, n_runs
from own
join chosen on judges = chosen_judges
order by asked, score desc, model, run_tag;
