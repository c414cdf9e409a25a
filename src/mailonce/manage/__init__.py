"""Sources, routes, senders, keys, workspaces, domains and inboxes: made, changed and removed.

Rule: One module per noun: its rules, what is refused, and the change in one transaction, which
every process is notified of. Doors call it, and `--dev`; nothing else that runs by itself does.
Imports: `clock`, `core`, `errors`, `handlers`, `inbox`, `net`, `providers`, `queue`, `settings`,
`store`, `telemetry`.
"""
