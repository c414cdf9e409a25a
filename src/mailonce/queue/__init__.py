"""What runs by itself: workers, reruns, alarms, configuration and maintenance.

Rule: Every loop survives an error that nobody foresaw, and stops when it is told to.
Imports: `clock`, `core`, `errors`, `loop`, `store`, `telemetry`.
"""
