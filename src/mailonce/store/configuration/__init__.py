"""Sources, routes, senders, keys and workspaces, and the version that every process reads.

Rule: A change raises the version in its own transaction.
Imports: `core`, `store.audit`, `store.dialects.upsert`, `store.filters`, `store.schema`.
"""
