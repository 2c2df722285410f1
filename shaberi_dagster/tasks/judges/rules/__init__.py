"""Graders: pure functions from an answer to right, wrong or an abstention, without a model call."""
