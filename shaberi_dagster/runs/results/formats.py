"""Formats of exports; light, so that help and usage errors are quick."""

RESULTS, SHABERI_V1, REQUESTS, CACHES = "results", "shaberi-v1", "requests", "ensemble-cache"
FORMATS = (RESULTS, SHABERI_V1, REQUESTS, CACHES)
