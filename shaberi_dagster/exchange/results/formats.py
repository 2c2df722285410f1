"""Formats of exports; light, so that help and usage errors are quick."""

RESULTS, SHABERI_V1, REQUESTS = "results", "shaberi-v1", "requests"
FORMATS = (RESULTS, SHABERI_V1, REQUESTS)
