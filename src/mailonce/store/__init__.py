"""What we remember: the only SQL.

Rule: Functions take the transaction they run in; what the two databases cannot share is in
`dialects`.
Imports: `core`, `errors`.
"""
