"""What arrived and what it says: events, facts, suppressions, counts, conflicts, dead letters.

Rule: Reads are paged and bounded; events are written by the dialects' record alone.
Imports: `core`, `store.days`, `store.dialects`, `store.filters`, `store.schema`.
"""
