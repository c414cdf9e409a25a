"""Django's migrations of the gate's tables.

Rule: Released migrations are never changed.
Imports: `gate.django`.
"""
