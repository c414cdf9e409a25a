"""SQLite in one file.

Rule: One thread has the only writing connection.
Imports: `store.audit`, `core`, `errors`, `store.dialects`, `store.schema`.
"""
