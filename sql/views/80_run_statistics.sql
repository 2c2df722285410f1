-- Multi-run statistics per model, base tag and judge: mean, sample standard deviation (ddof 1; null for one run),
-- minimum, maximum and values over the runs, per benchmark and overall (each run's mean of its benchmark scores).
-- Overall is there only when every run has the same question sets, judge prompts and settings, and passes;
-- without that a benchmark has a row for each of them (hashes; null in overall). mean_upper is the mean of the upper ends of scores. One row per null policy and pipeline.
create view run_statistics as
from run_statistics_of(1000000);
