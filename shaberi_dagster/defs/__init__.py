"""The Dagster side: assets, checks, partitions, resources, jobs and sensors. Only here is dagster imported."""

import warnings

import dagster as dg

# Partitioned checks are a preview, which is said once for each asset.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
