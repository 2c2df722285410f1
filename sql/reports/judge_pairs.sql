-- How far some judges agree on all answers that two of them scored. Sums over many answers have no fixed order: without
-- their last digits they are the same each time.
select
    judge_a, judge_b, n, round(pearson, 6) as pearson, round(spearman, 6) as spearman, exact_share,
    round(mean_difference, 6) as mean_difference
from judge_agreement
where benchmark = 'overall'
  and list_contains($judges, judge_a)
  and list_contains($judges, judge_b)
order by judge_a, judge_b
