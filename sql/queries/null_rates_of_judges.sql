-- Judgements without a score per judge × benchmark, a column for each class of failure; highest share first.
-- $benchmark: benchmark = null
select
    judge, benchmark, n_judgements, n_scored, n_without_score, round(null_rate, 4) as null_rate,
    error_classes, n_out_of_scale, n_truncated, n_finish_reason_known, n_excluded, n_skipped
from null_rates
where benchmark = coalesce($benchmark, benchmark)
order by null_rates.null_rate desc nulls last, judge, benchmark;
