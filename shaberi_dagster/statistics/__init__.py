"""Statistics of scores: intervals, tests, power, comparisons of runs. Numbers in, numbers out; no lake, no Dagster."""
