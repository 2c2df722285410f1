"""Reports: what is true of the lake, and how it is shown.

A module is a report: what it reads, its rows, its sentences, its tables, and the `Document` or `Result` of them, which
has blocks for people, records for CSV, and data for JSON (`blocks.py`). `write.write(document, format, console)` is all
that a command calls. Cells hold what a report holds, models' names and all; what draws them makes them harmless
(`util/text.py`), so that no document has to think of it.
"""
