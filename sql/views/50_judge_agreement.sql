-- How far two judges agree on the same answers (same model, question and answer text): Pearson and Spearman
-- correlation (ties get their mean rank), share of equal scores, mean difference judge_a - judge_b on the reported
-- scale, n answers. Benchmark overall: all benchmarks together. Correlation null: one judge gave one score only.
-- Sums have a fixed order, so that the same scores give the same numbers to the last bit.
create view judge_agreement as
from judge_agreement_of('score_patterns');
