"""The command line: a client of the API, and the command that serves it.

Rule: A command prints for people by default, and JSON when it is asked to.
Imports: `client`, `core`, `edge.connections`, `edge.http`, `edge.mcp`, `edge.smtp`, `errors`,
`handlers`, `inbox`, `manage`, `pipeline`, `providers`, `reload`, `send`, `service`, `settings`,
`log_lines`, `telemetry`, `testing`, `tls`, `views`, `wiring`.
"""
