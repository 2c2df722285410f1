"""An LLM evaluation lakehouse: evaluations as Dagster assets, Delta tables and SQL."""

__version__ = "0.1.0"
