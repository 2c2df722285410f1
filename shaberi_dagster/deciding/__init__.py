"""Deciding between models with as few questions as it takes: who is asked, what the past tells, the rounds."""
