"""A send's way: submit → transmit → settle.

Rule: Nothing leaves before the commit that says so, and nothing is guessed about what did.
Imports: `clock`, `core`, `errors`, `pipeline`, `providers`, `queue`, `store`, `telemetry`.
"""
