"""How sources and the installation are doing: alarms and the doctor's checks.

Rule: Each finding says what to do.
Imports: `core.moment`.
"""
