"""What can be asked of the lake: each report is one module, which reads it and returns frozen dataclasses and frames.

Nothing here prints or formats (`rendering/`), and nothing starts a run. SQL stands in `sql/reports/`.
"""
