"""Inboxes, the addresses that lead to them, mail, messages and their bytes.

Rule: One module per noun. Mail itself is written by the group commit (`store.schema.mail_rows`).
Imports: `core`, `store.configuration.locks`, `store.days`, `store.dialects.row_locks`,
`store.dialects.upsert`, `store.expectations.forgetting`, `store.filters`,
`store.ledger.copies`, `store.schema`, `store.work`.
"""
