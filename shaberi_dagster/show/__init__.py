"""How reports are shown: each once, for the terminal, as Markdown, CSV and JSON.

`reports/` says what is true; nothing is computed here. A module of this package, named as the report, has one
`Document` around it, which says

- `blocks(width)`: what people read, as headings, tables and sentences (`document.py`);
- `records()`: the lines of the CSV file, one flat mapping each;
- `data()`: the JSON document, whose schema only grows.

`write(document, format, console)` does the rest, and is all that a command calls: `terminal.py` and `markdown.py` draw
blocks, `data.py` writes records and data. Cells hold what a report holds, models' names and all; whoever draws makes
them harmless (`text.py`), so that no document has to think of it. How numbers look is in `figures.py`.
"""
