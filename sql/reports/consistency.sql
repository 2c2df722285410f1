-- How far a judge that was asked several times about an answer says the same: pooled standard deviation of its scores of
-- one answer (within), of the mean scores of answers (between), and answers that it always gave one score; on its scale.
-- Judgements in force, each piece of evidence once.
select
    judge, benchmark, count(*) as answers, avg(len(sample_scores)) as times, avg(score) as mean_score,
    sqrt(avg(list_aggregate(sample_scores, 'var_samp'))) as within, stddev_samp(score) as between,
    count(*) filter (list_min(sample_scores) = list_max(sample_scores)) as alike,
    alike / count(*) as alike_share
from judgement_evidence
where status = 'ok'
  and len(sample_scores) > 1
  and run_id in (from selected_runs($models, $tags, $sources))
group by judge, benchmark
order by judge, benchmark
