"""The gate: a webhook takes effect exactly once in your own app, in its own transaction.

Needs nothing of the server. A store is imported from `mailonce.gate.stores`, an adapter from
`mailonce.gate.adapters`; each needs only the driver or the framework that it is for.

Rule: A library for other people's apps: nothing of the server is imported.
Imports: `client`, `core`, `errors`.
"""

from mailonce.gate.async_gate import AsyncGate, AsyncPassage
from mailonce.gate.gate import Gate, Passage
from mailonce.gate.rules.answer import Answer, Outcome
from mailonce.gate.rules.decision import is_final, is_success
from mailonce.gate.rules.http import Request, Response
from mailonce.gate.rules.policy import Policy

__all__ = [
    "Answer",
    "AsyncGate",
    "AsyncPassage",
    "Gate",
    "Outcome",
    "Passage",
    "Policy",
    "Request",
    "Response",
    "is_final",
    "is_success",
]
