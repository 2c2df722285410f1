-- How far each pair of judges agrees on the same answers (benchmark overall: all together); closest pairs first.
-- $benchmark: benchmark or overall = overall
select
    judge_a, judge_b, n, round(pearson, 3) as pearson, round(spearman, 3) as spearman,
    round(exact_share, 3) as exact_share, round(mean_difference, 3) as mean_difference
from judge_agreement
where benchmark = $benchmark
order by pearson desc nulls last, judge_a, judge_b;
