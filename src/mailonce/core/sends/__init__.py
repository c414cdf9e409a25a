"""What goes out: a mail for one recipient, the sender that takes it, and the provider's part.

Rule: Bytes are frozen before the first call and hold no credentials.
Imports: `core.events`, `core.ledger`, `core.mail`, `core.reading`, `core.signatures`, `core.work`,
`core.bounds`, `core.empty_secret`, `core.fields`, `core.ids`, `core.json_text`, `core.moment`,
`core.nearest_name`, `errors`.
"""
