"""The one partition dimension: the run."""

import dagster as dg

RUNS_NAME = "runs"
runs = dg.DynamicPartitionsDefinition(name=RUNS_NAME)
"""A key is `{model_safe}@@{run_tag}`; it is registered when a RunSpec is stored."""
