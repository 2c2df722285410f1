"""Strategies that make one answer of several samples; the caller makes their calls."""
