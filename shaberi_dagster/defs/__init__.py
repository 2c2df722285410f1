"""The Dagster side: assets, checks, partitions, resources, jobs and sensors. Only here is dagster imported."""

import warnings

from shaberi_dagster.util.lazy import fill_later

# Partitioned checks are a preview, which is said once for each asset. Commands that start nothing load no Dagster.
warnings.filterwarnings("ignore", message=r".* is currently in (beta|preview), and may have breaking changes")

# What Dagster imports and a run does not need: other databases, the daemon, pages of errors in templates. 0.2 s.
fill_later("alembic.ddl", "dagster._daemon", "mako.exceptions")
