"""Requests for runs, the specs of runs, and forecasts of the calls that they still take."""
