"""Reports on the lake: each is one module, which reads it and returns frozen dataclasses, rows and frames.

Nothing here prints or formats (`rendering/`), and nothing starts a run. SQL stands in `sql/reports/`.
"""
