"""The doors: HTTP, SMTP, MCP and the command line.

Rule: They translate; they never decide, and never touch the store.
Imports: what stands below: `client`, `core`, `errors`, `handlers`, `inbox`, `loop`,
`manage`, `pipeline`, `providers`, `queue`, `reload`, `send`, `service`, `settings`,
`log_lines`, `telemetry`, `testing`, `tls`, `views`, `wiring`.
"""
