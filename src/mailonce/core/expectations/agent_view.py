"""The view of an agent's key: each field has a closed grammar, and nothing else passes.

Whoever writes a mail writes to the agent that reads it. So an agent's key sees no subject, no name,
no text, no file name and no sentence that quotes one: only ids, times, numbers, words of ours, the
code, the link that the operator's allow-list covers, and a sender as the policy names it.

Everything that an agent's key gets goes through `agent_view` or `agent_problem`. A field that is
not listed here is dropped; a value outside of its grammar becomes null.

Bound: of what the writer of one mail chooses, at most `ATTACKER_BYTES_MAX` bytes reach the agent:
one value of 40 (code) or `LINK_CHARS_MAX` (link) characters, and a registrable domain of 253.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from mailonce.core.expectations.consumption import ConsumptionState
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.match_mail import MailOutcome, Matcher, MatchReason
from mailonce.core.expectations.redemption import RedemptionReason, RedemptionState
from mailonce.core.expectations.resend import ResendReason
from mailonce.core.expectations.settle import StateReason
from mailonce.core.extraction.code_format import CODE_CHARS_MAX
from mailonce.core.extraction.extraction import ArtifactKind, Evidence
from mailonce.core.extraction.host_name import registrable_domain
from mailonce.core.extraction.link_verdict import LinkDecision, LinkReason
from mailonce.core.extraction.web_address import URL_CHARS_MAX

LINK_CHARS_MAX = URL_CHARS_MAX
DOMAIN_CHARS_MAX = 253
ATTACKER_BYTES_MAX = LINK_CHARS_MAX + DOMAIN_CHARS_MAX

Grammar = Callable[[Any], bool]


def _pattern(text: str) -> Grammar:
    compiled = re.compile(text, re.ASCII)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value in WORDS


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


ID = _pattern(r"(?:exp|inb|art|con|msg)_[0-9a-f]{32}")
# Words of ours, and no others.
_ENUMERATIONS: tuple[type[StrEnum], ...] = (
    ArtifactKind, ConsumptionState, Evidence, ExpectationState, LinkDecision, LinkReason,
    MailOutcome, MatchReason, Matcher, RedemptionReason, RedemptionState, ResendReason, StateReason,
)  # fmt: skip
WORDS = frozenset(word.value for words in _ENUMERATIONS for word in words)
MOMENT = _pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CODE = _pattern(rf"[A-Za-z0-9-]{{3,{CODE_CHARS_MAX}}}")
# RFC 3986's characters alone: no spaces, no quotes, no angle brackets.
LINK = _pattern(rf"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{{1,{LINK_CHARS_MAX - 8}}}")
HOST = _pattern(rf"[a-z0-9.:\[\]-]{{1,{DOMAIN_CHARS_MAX}}}")
# What the policy names; else the domain that somebody registered.
SENDER = _pattern(r"[a-z0-9!#$%&'*+./=?^_{|}~-]{0,64}@[a-z0-9._-]{1,253}")
# An address of ours, made by us or by the operator.
ADDRESS = SENDER

_SCALARS: Mapping[str, Grammar] = {
    "id": ID,
    "inbox": ID,
    "expectation": ID,
    "consumption": ID,
    "address": ADDRESS,
    "state": _is_word,
    "reason": _is_word,
    "kind": _is_word,
    "outcome": _is_word,
    "matcher": _is_word,
    "verdict": _is_word,
    "passed": _is_flag,
    "waiting": _is_flag,
    "accepted": _is_flag,
    "granted": _is_flag,
    "sender": SENDER,
    "host": HOST,
    "received_at": MOMENT,
    "opened_at": MOMENT,
    "deadline_at": MOMENT,
    "consumed_at": MOMENT,
    "confirmed_at": MOMENT,
    "lease_until": MOMENT,
    "retry_at": MOMENT,
    "expires_at": MOMENT,
    "candidates": _is_count,
    "resends": _is_count,
    "resends_left": _is_count,
    "mails": _is_count,
    "seq": _is_count,
    "token": _is_count,
    "hops": _is_count,
    "score": _is_count,
    "status": _is_count,
    "wait_s": _is_seconds,
    "retry_s": _is_seconds,
}
# Which fields hold further ones.
_NESTED = frozenset(
    {"artifact", "guard", "redemption", "matchers", "judged", "superseding", "next"}
)
# What the value of each kind looks like; a state is one of the words of the policy.
VALUES: Mapping[str, Grammar] = {ArtifactKind.CODE: CODE, ArtifactKind.LINK: LINK}


def agent_view(shown: Mapping[str, Any], *, states: Sequence[str] = ()) -> dict[str, Any]:
    """Give what an agent's key may see; `states` are the words that the policy named."""
    view: dict[str, Any] = {}
    for name, value in shown.items():
        if name == "value":
            view[name] = _value(shown.get("kind"), value, states)
        elif name in _NESTED:
            view[name] = _nested(value, states)
        elif name in _SCALARS:
            is_fit = value is None or _SCALARS[name](value)
            view[name] = value if is_fit else None
    return view


def _nested(value: Any, states: Sequence[str]) -> Any:
    if isinstance(value, Mapping):
        return agent_view(value, states=states)
    if isinstance(value, list):
        elements = [_element(one, states) for one in value]
        return [one for one in elements if one is not None]
    return None


def _element(value: Any, states: Sequence[str]) -> Any:
    if isinstance(value, Mapping):
        return agent_view(value, states=states)
    return value if ID(value) else None


def _value(kind: Any, value: Any, states: Sequence[str]) -> str | None:
    if kind == ArtifactKind.STATE:
        return value if value in states else None
    grammar = VALUES.get(kind) if isinstance(kind, str) else None
    return value if grammar is not None and grammar(value) else None


def sender_for_agent(sender: str, named: Sequence[str]) -> str | None:
    """Show a sender as the policy names it; where it names none, the domain that was registered."""
    if sender in named:
        return sender
    domain = sender.rpartition("@")[2]
    if named:
        # What a stranger registered is for nobody to read who waits for somebody else.
        return f"@{domain}" if f"@{domain}" in named else None
    registered = registrable_domain(domain) if domain else ""
    return f"@{registered}" if registered else None


class ProblemKind(StrEnum):
    """The kinds of problems that an agent's key may meet."""

    ERROR = "error"
    PARSE = "parse"
    REFUSED = "refused"
    VERIFY = "verify"
    ACCESS = "access"
    MISSING = "missing"
    NOT_CONSUMED = "not_consumed"
    CLASH = "clash"
    GONE = "gone"
    SIZE = "size"
    UNAVAILABLE = "unavailable"
    LEASE_LOST = "lease_lost"
    CONSUMED = "consumed"
    NOT_READY = "not_ready"
    REJECTED = "rejected_value"
    USED_UP = "used_up"
    REDEEMING = "redeeming"
    LINK_HOST = "link_host"


_K = ProblemKind
ARGUMENT_CHARS_MAX = 400
# What an agent reads instead of the sentence, which may quote somebody.
SENTENCES: Mapping[ProblemKind, str] = {
    _K.ERROR: "something is broken here; tell the operator",
    _K.PARSE: "the request is not as documented; see /llms.txt",
    _K.REFUSED: "this is refused; see /llms.txt",
    _K.VERIFY: "the key is not known, or has ended; ask the operator for another",
    _K.ACCESS: "an agent's key may not do this; go on with the expectation alone",
    _K.MISSING: "there is no such thing; check the id",
    _K.NOT_CONSUMED: "nothing was consumed with this consume key; consume first, with the same key",
    _K.CLASH: "this key stands for something else already; use a new key",
    _K.GONE: "it was there and is not any more; open a new expectation",
    _K.SIZE: "the request is too large; send less",
    _K.UNAVAILABLE: "the server cannot answer now; try again in two seconds",
    _K.LEASE_LOST: "the lease is not yours any more; do not use the value",
    _K.CONSUMED: "another consume key has consumed it; ask again at `retry_at`, or stop",
    _K.NOT_READY: "there is nothing to consume; wait, or see `state`",
    _K.REJECTED: "the value under this consume key was rejected; use a new consume key",
    _K.USED_UP: "this key has been used as often as it may; ask the operator for another",
    _K.REDEEMING: "the request is being made; ask again at `retry_at`",
    _K.LINK_HOST: "a host of `link_hosts` is not within the setting expectations.link_hosts; "
    "whoever runs the server can add it",
}


def agent_problem(
    kind: str, members: Mapping[str, Any], *, argument: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Give the sentence and the members of a problem that an agent's key may see.

    `argument` is the sentence about an argument of the agent's own request, where it is one.
    """
    view = agent_view(members)
    if argument is not None and argument.isprintable() and len(argument) <= ARGUMENT_CHARS_MAX:
        return argument, view
    known = kind if kind in list(ProblemKind) else ProblemKind.ERROR
    return SENTENCES[ProblemKind(known)], view
