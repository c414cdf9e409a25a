"""The gate: a webhook takes effect exactly once in your own app, in its own transaction.

Needs nothing of the server. A store is imported from `mailonce.gate.stores`, an adapter from
`mailonce.gate.adapters`; each needs only the driver or the framework that it is for.
"""

from mailonce.gate.answer import Answer, Outcome
from mailonce.gate.asynchronous import AsyncGate, AsyncPassage
from mailonce.gate.decision import is_final, is_success
from mailonce.gate.http import Request, Response
from mailonce.gate.policy import Policy
from mailonce.gate.sync import Gate, Passage

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
