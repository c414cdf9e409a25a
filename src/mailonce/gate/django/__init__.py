"""A Django app with the gate's tables and migrations.

Rule: Released migrations are never changed.
Imports: `errors`, `gate.schema`, `gate.sql`.
"""
