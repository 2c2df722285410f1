"""Finished calls that no kill may lose, claims on calls at work, and locks: in files, or in PostgreSQL."""
