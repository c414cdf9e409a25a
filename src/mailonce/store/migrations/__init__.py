"""The steps from one schema to the next, run by Alembic.

Rule: A migration is never changed once it is released; the code before it still runs on its
result.
Imports: `store.schema`.
"""
