"""Inboxes: who may get mail, what is kept of it, and by what copies of it are known.

Rule: Pure. An inbox numbers its mail in the transaction that keeps it; nothing numbers later.
Imports: `core.bounds`, `core.events`, `core.ids`, `core.ledger`, `core.mail`, `core.text`,
`core.work`, `core.argument_error`, `errors`.
"""
