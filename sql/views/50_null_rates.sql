-- What became of the judgements in force per judge × benchmark, each piece of evidence once: with and without a score, classes of failure and
-- ways in which scores were found (counts by name), out of scale, cut off by the token limit. null_rate: share of the
-- judgements asked for, so without excluded (empty) and skipped (failed) answers, that have no score.
create view null_rates as
select
    judge, benchmark, strategy,
    count(*) as n_judgements,
    count(score) as n_scored,
    count(*) filter (status = 'error') as n_without_score,
    count(*) filter (status = 'error') / nullif(count(*) filter (status in ('ok', 'error')), 0) as null_rate,
    count(*) filter (status = 'excluded') as n_excluded,
    count(*) filter (status = 'skipped') as n_skipped,
    histogram(error_class) filter (status = 'error') as error_classes,
    histogram(score_source) as score_sources,
    count(*) filter (out_of_scale) as n_out_of_scale,
    count(*) filter (finish_reason = 'length') as n_truncated,
    count(finish_reason) as n_finish_reason_known
from judgement_evidence
group by all;
