"""Say what a person can change where a mail did not give the code or the link that was expected.

For whoever may read the mail itself: a hint quotes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from mailonce.core.expectations.expectation import ExpectationPolicy
from mailonce.core.expectations.look_alike import look_alike
from mailonce.core.expectations.match_mail import extract, match_sender, sender_of
from mailonce.core.extraction.extraction import (
    ArtifactCandidate,
    ArtifactKind,
    Evidence,
    Extraction,
    ExtractionOutcome,
)
from mailonce.core.extraction.link_verdict import LinkDecision, LinkReason, LinkVerdict
from mailonce.core.extraction.links import shown_host

# More of them make no sentence.
SHOWN_MAX = 3
SHOWN_CHARS_MAX = 80

# What a program does; who has a command line reads it otherwise.
READ_THE_MAIL = "read the mail with wait_for_message"

# Rejected for how the host is addressed, which can be named.
_OTHER_ADDRESS = frozenset(
    {
        LinkReason.NOT_HTTPS,
        LinkReason.OTHER_PORT,
        LinkReason.IP_ADDRESS,
        LinkReason.INTERNAL_NAME,
        LinkReason.PUBLIC_SUFFIX,
    }
)


def hint(policy: ExpectationPolicy, message: Mapping[str, Any]) -> str | None:
    """Say what was seen in a message instead of one value, and what to name; None: nothing was."""
    sender = sender_of(message)
    if not match_sender(policy, sender).passed:
        return _sender_hint(sender[:SHOWN_CHARS_MAX], policy.senders)
    extraction = extract(policy, message)
    if extraction.outcome is ExtractionOutcome.FOUND and _is_allowed(extraction.winner):
        return None
    match policy.kind:
        case ArtifactKind.CODE:
            return _code_hint(policy, message, extraction)
        case ArtifactKind.LINK:
            return _link_hint(policy, extraction)
        case ArtifactKind.STATE:
            return None
        case _:
            assert_never(policy.kind)


def _sender_hint(sender: str, named: Sequence[str]) -> str:
    if not sender:
        return "a sender was named, but this mail has none that can be read, or several"
    domain = sender.rpartition("@")[2]
    if (meant := look_alike(domain, named)) is not None:
        return (
            f"it came from {sender}, whose domain only looks like {meant}: somebody else may have "
            "registered it; name it only where you know whose it is"
        )
    return (
        f'it came from {sender}; to allow that, name "{sender}" as a sender, '
        f'or "@{domain}" for its whole domain'
    )


def _code_hint(
    policy: ExpectationPolicy, message: Mapping[str, Any], extraction: Extraction
) -> str | None:
    seen = _distinct(extraction.candidates)
    wanted = policy.code_format
    if extraction.outcome is ExtractionOutcome.AMBIGUOUS:
        good = _distinct(one for one in extraction.candidates if one.is_good)
        advice = "name a sender, a subject or a code_format"
        if len({_format_of(one) for one in good}) == 1:
            # They stand in one mail, so nothing that can be named tells them apart.
            advice = f"{READ_THE_MAIL}, and take the one you mean"
        return f"{_joined(good)} are equally good; {advice}"
    if not seen and wanted is not None:
        others = extract(replace(policy, code_format=None, only_candidate=False), message)
        seen = _distinct(others.candidates)
        return f"nothing has the format {wanted}; seen: {_joined(seen)}" if seen else None
    best = next(iter(extraction.candidates), None)
    if best is None:
        return None
    if best.speaks_against:
        return f"{_joined(seen)} seen, but {_words(best.speaks_against)} speaks against it"
    advice = _format_advice(policy, best)
    return f"{_joined(seen)} seen, but too little says that it is the code; {advice}"


def _format_advice(policy: ExpectationPolicy, best: ArtifactCandidate) -> str:
    if policy.only_candidate:
        return "name a code_format that one alone has"
    if policy.code_format is not None:
        return "pass only_candidate where it is the one"
    return f'pass code_format="{_format_of(best.value)}" where it is the one'


def _format_of(code: str) -> str:
    kind = "digits" if code.isdecimal() else "alphanumeric"
    return "-".join(f"{kind}:{len(term)}" for term in code.split("-"))


def _link_hint(policy: ExpectationPolicy, extraction: Extraction) -> str | None:
    links = [(one, one.guard) for one in extraction.candidates if one.guard is not None]
    allowed = [(one, guard) for one, guard in links if guard.decision is LinkDecision.ALLOWED]
    others = [guard for _, guard in links if guard.decision is not LinkDecision.ALLOWED]
    if len(allowed) > 1:
        is_ambiguous = extraction.outcome is ExtractionOutcome.AMBIGUOUS
        meant = [
            guard
            for one, guard in allowed
            if (one.is_good if is_ambiguous else not one.speaks_against)
        ]
        return _rivals_hint(meant if len(meant) > 1 else [guard for _, guard in allowed])
    for one, guard in links:
        if Evidence.TEXT_SHOWS_OTHER_HOST in one.speaks_against:
            shown = shown_host(one.display)[:SHOWN_CHARS_MAX]
            return f"the words of the link show {shown}, but it leads to {guard.host}"
    rejected = next((one for one in others if one.host), None)
    if allowed:
        place = _joined([_place(allowed[0][1])])
        flag = "" if policy.only_candidate else "; pass only_candidate where it is the one"
        other = "" if rejected is None else f"; another link leads to {rejected.host}"
        return f"{place} leads there, but too little says that it is meant{flag}{other}"
    return None if rejected is None else _rejection_hint(rejected)


def _rivals_hint(guards: Sequence[LinkVerdict]) -> str:
    places = list(dict.fromkeys(_place(one) for one in guards))
    # A path that one alone lies below.
    own = (one for one in places if sum(other.startswith(one) for other in places) == 1)
    named = next(own, None)
    if len(places) == 1 or named is None:
        return (
            f"{len(guards)} links lead to {_joined(places)}, and nothing that can be named tells "
            "them apart; read the mail with wait_for_message, and take the one you mean"
        )
    advice = f"name a path as well, such as {named[:SHOWN_CHARS_MAX]}"
    return f"{_joined(places)} lead there; {advice}"


def _place(guard: LinkVerdict) -> str:
    return f"{guard.host}{guard.path}"


def _rejection_hint(guard: LinkVerdict) -> str:
    if guard.reason in _OTHER_ADDRESS:
        origin = _origin(guard)
        return f'the link leads to {origin}; to allow that, name it whole: "{origin}"'
    if guard.reason is LinkReason.HOST_NOT_ALLOWED:
        return f'the link leads to {guard.host}; to allow that, name "{guard.host}"'
    if guard.reason is LinkReason.PATH_NOT_ALLOWED:
        place = _joined([_place(guard)])
        return f"the link leads to {place}, which is not below the path named"
    return f"the link leads to {guard.host}: {_words([guard.reason])}"


def _origin(guard: LinkVerdict) -> str:
    default = {"https": 443, "http": 80}.get(guard.scheme)
    port = "" if guard.port in (None, default) else f":{guard.port}"
    return f"{guard.scheme}://{guard.host}{port}"


def _is_allowed(winner: ArtifactCandidate | None) -> bool:
    guard = None if winner is None else winner.guard
    return guard is None or guard.decision is LinkDecision.ALLOWED


def _distinct(candidates: Iterable[ArtifactCandidate]) -> list[str]:
    return list(dict.fromkeys(one.value for one in candidates))


def _joined(values: Sequence[str]) -> str:
    shown = [one[:SHOWN_CHARS_MAX] for one in values[:SHOWN_MAX]]
    more = len(values) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _words(words: Iterable[Evidence | LinkReason]) -> str:
    return ", ".join(str(one).replace("_", " ") for one in words)
