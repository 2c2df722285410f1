"""`shaberi view`: the lake as web pages, which only read."""
