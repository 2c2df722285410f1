"""Benchmarks as data: their questions, identified by content, and how answers are graded."""
