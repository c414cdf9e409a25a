"""Prove who sent an arrival, and seal the secrets that prove it.

Rule: Compare in constant time; a signature is checked over the raw bytes.
Imports: `core.arrivals`, `core.events`, `core.reading`, `core.bounds`, `core.empty_secret`,
`core.json_text`, `core.one_line`, `errors`.
"""
