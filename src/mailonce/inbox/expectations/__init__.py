"""Expectations at work: opened, matched with mail, waited for, consumed, confirmed, redeemed.

Rule: One stage per module. What follows from what is decided in `core.expectations`.
Imports: `clock`, `core`, `errors`, `loop`, `net`, `store`, `telemetry`, `inbox.read_queue`,
`inbox.waiting`.
"""
