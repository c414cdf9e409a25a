"""The way through the gate and its outbox, as generators that yield what to do next.

Rule: A flow does no step itself, so the blocking and the awaited gate share it.
Imports: `errors`, `gate.rules`, `gate.sql`.
"""
