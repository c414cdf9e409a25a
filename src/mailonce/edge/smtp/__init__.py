"""The SMTP door: takes mail for our inboxes and for nobody else.

Rule: 250 after the commit alone; nothing is relayed, resolved or kept beyond a limit.
Imports: `core.inboxes`, `core.mail`, `core.signatures`, `edge.connections`, `errors`, `loop`,
`pipeline`, `settings`, `telemetry`.
"""
