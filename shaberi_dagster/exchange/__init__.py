"""Imports from other trees, caches and logs, and exports as files."""
