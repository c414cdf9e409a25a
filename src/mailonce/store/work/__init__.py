"""What is owed: rows of work and their pages, expiry, redelivery, polling and reruns.

Rule: A change of a leased row names its token.
Imports: `core`, `store.dialects`, `store.filters`, `store.ledger`, `store.schema`.
"""
