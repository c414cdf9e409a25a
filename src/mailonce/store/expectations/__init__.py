"""Expectations, what they judged, artifacts, and who consumed them.

Rule: One module per noun. The row of an expectation is locked before its artifacts are.
Imports: `core`, `store.dialects.row_locks`, `store.dialects.upsert`, `store.schema`.
"""
