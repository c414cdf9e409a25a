"""PostgreSQL 14 or later, through asyncpg.

Rule: A statement that writes is its own transaction: a paused process holds no lock.
Imports: `store.audit`, `core`, `errors`, `store.dialects`, `store.schema`.
"""
