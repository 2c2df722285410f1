"""Adoption of the old suite's prompts, parameters and parsers from a checkout, none of whose code is run."""
