"""The way of a mail: accept → digest → read by whoever waits for it.

Rule: One stage per module. A door calls `accept`, the worker runs the digest, views read.
Imports: `clock`, `core`, `errors`, `loop`, `net`, `pipeline`, `providers`, `queue`, `store`,
`telemetry`.
"""
