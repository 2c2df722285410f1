"""The stages of a run, one module each, named as the tables that they make."""
