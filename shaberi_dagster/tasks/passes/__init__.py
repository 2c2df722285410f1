"""Passes: they find faults in answers, and lower the scores of judgements for them."""
