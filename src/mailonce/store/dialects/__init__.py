"""What the two databases cannot share, behind one contract.

Rule: One conformance suite runs on both; nobody outside names a dialect.
Imports: `store.audit`, `core`, `errors`, `store.schema`.
"""
