"""The HTTP door: arrivals, the API, and the limits of what a client may take.

Rule: Arrivals, sends and requests that wait take the short way without ASGI; all else is FastAPI's.
Imports: `core`, `edge.connections`, `edge.mcp`, `errors`, `inbox`, `loop`, `manage`, `pipeline`,
`queue`, `send`, `service`, `settings`, `telemetry`, `views`.
"""
