"""First, copy or conflict: what a batch of entries writes.

Rule: `decide` is the only place that judges events; databases and property tests call it.
Imports: `core.deliveries`, `core.events`, `core.work`, `core.ids`, `core.moment`.
"""
