-- How much higher than its peers a judge scores: its mean difference, on the reported scale, from the mean of all
-- judges of the same answer, itself included; only answers with two judges or more count. Benchmark overall: all
-- answers together. mean_judges tells how many judges that mean is over.
-- Sums have a fixed order, so that the same scores give the same numbers to the last bit.
create view judge_leniency as
from judge_leniency_of('score_patterns');
