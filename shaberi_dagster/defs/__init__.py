"""The Dagster side: assets, checks, partitions, resources, jobs and sensors. Only here is dagster imported."""
