"""The lake: Delta tables, their schemas, and the catalog of SQL views over them."""
