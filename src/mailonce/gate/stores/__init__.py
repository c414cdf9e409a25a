"""One module per driver: the claim is made in the app's own transaction.

Rule: A store imports only its driver; each passes the conformance suite.
Imports: `errors`, `gate.sql`, `gate.store_contract`.
"""
