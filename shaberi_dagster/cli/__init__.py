"""The commands. Those that only read never import dagster."""
