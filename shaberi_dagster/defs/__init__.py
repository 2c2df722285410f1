"""The Dagster side: assets, checks, partitions, resources, jobs and sensors. Only here is dagster imported."""

import warnings

# Partitioned checks are a preview, which is said once for each asset. Commands that start nothing load no Dagster.
warnings.filterwarnings("ignore", message=r".* is currently in (beta|preview), and may have breaking changes")
