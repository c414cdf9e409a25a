"""The way of an arrival: receive, verify, parse, record; and of a delivery: deliver, handle.

Rule: One module per stage; a stage decides by `core` and waits by what it is given.
Imports: `clock`, `core`, `errors`, `handlers`, `net`, `providers`, `store`, `telemetry`.
"""
