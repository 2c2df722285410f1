-- The roll-up of scores per run, judge, benchmark, pipeline and null policy, without the single scores that lake.metrics has
-- for intervals and ties.
create view metrics as
select metrics.* exclude (question_ids, question_scores, undecided)
    replace (
        case when n_undecided is null then score else score_upper end as score_upper,
        coalesce(n_undecided, 0) as n_undecided
    )
from lake.metrics;
