"""Match a message against an expectation: each matcher says whether it passes, and why.

A mail matches where it comes from a sender, under a subject and with an artifact that the policy
names. One that would match, but may not be believed (DMARC) or followed (its link), is quarantined.
Whoever waited before may get the last attempt's slow mail: one that was written well before the
expectation was opened is a stale suspect, and its value is not offered; unless the operator named
the number of the inbox behind which mail counts, and with it what is old.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, assert_never

from msgspec import Struct

from mailonce.core.expectations.expectation import Expectation, ExpectationPolicy
from mailonce.core.expectations.link_host import read_link_host
from mailonce.core.extraction.code_format import parse_code_format
from mailonce.core.extraction.codes import extract_code
from mailonce.core.extraction.extraction import (
    ArtifactCandidate,
    ArtifactKind,
    Evidence,
    Extraction,
    ExtractionOutcome,
)
from mailonce.core.extraction.host_name import registrable_domain
from mailonce.core.extraction.link_verdict import LinkDecision
from mailonce.core.extraction.links import extract_link
from mailonce.core.extraction.mail_texts import MailTexts
from mailonce.core.extraction.named_states import extract_state
from mailonce.core.mail.address import read_address
from mailonce.core.mail.mime.mail_date import read_date_ms
from mailonce.core.mail.problem import MailProblem
from mailonce.core.reading.values import iso_ms_of

# A mail that was written so long before the expectation was opened is an earlier attempt's.
STALE_MS = 120_000
# Of one mail; more good values than these help nobody.
CANDIDATES_KEPT_MAX = 5


class Matcher(StrEnum):
    ARRIVAL = "arrival"
    SENDER = "sender"
    SUBJECT = "subject"
    CONTENT = "content"
    DMARC = "dmarc"
    GUARD = "guard"
    FRESHNESS = "freshness"


class MatchReason(StrEnum):
    """Why a matcher passes, or does not; the content's own words are those of the extraction."""

    IN_TIME = "in_time"
    LATE = "late"
    ANYBODY = "anybody"
    NAMED_ADDRESS = "named_address"
    NAMED_DOMAIN = "named_domain"
    OTHER_SENDER = "other_sender"
    NO_SENDER = "no_sender"
    ANY_SUBJECT = "any_subject"
    HAS_WORDS = "has_words"
    LACKS_WORDS = "lacks_words"
    FOUND = "found"
    NOT_DEMANDED = "not_demanded"
    DMARC_PASS = "dmarc_pass"  # noqa: S105 - no password
    DMARC_UNKNOWN = "dmarc_unknown"
    DMARC_FAIL = "dmarc_fail"
    ALLOWED = "allowed"
    FRESH = "fresh"
    STALE_SUSPECT = "stale_suspect"
    # A mistake of ours, which must not hold up what comes after it.
    UNREADABLE = "unreadable"


class MailOutcome(StrEnum):
    """What a mail is to an expectation."""

    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    QUARANTINED = "quarantined"
    UNMATCHED = "unmatched"
    LATE = "late"


# Those that count against the budget, and of which the latest wins.
MATCHES = frozenset({MailOutcome.MATCHED, MailOutcome.AMBIGUOUS})


class MatcherVerdict(Struct, frozen=True):
    """The verdict of one matcher; the reason is a word, never text of the mail."""

    matcher: Matcher
    passed: bool
    reason: str


class MailVerdict(Struct, frozen=True, kw_only=True):
    """What became of one mail, and the values that were found in it, best first."""

    outcome: MailOutcome
    reason: str
    # In the spelling of addresses; "" where it has none that can be read.
    sender: str
    is_stale: bool
    matchers: tuple[MatcherVerdict, ...]
    candidates: tuple[ArtifactCandidate, ...] = ()


def match_mail(
    expectation: Expectation, message: Mapping[str, Any], *, received_ms: int
) -> MailVerdict:
    """Judge a message, given as `mailonce.message/1`; all matchers speak, also after one failed."""
    policy = expectation.policy
    sender = sender_of(message)
    extraction = extract(policy, message)
    guard = _guard_verdict(extraction)
    matchers = (
        _arrival(received_ms, expectation.deadline_ms),
        match_sender(policy, sender),
        _subject(policy, message.get("subject") or ""),
        _content(extraction),
        _dmarc(policy, message.get("authentication"), sender),
        guard,
        _freshness(policy, message, expectation.opened_ms),
    )
    outcome, reason = _outcome({one.matcher: one for one in matchers}, extraction)
    return MailVerdict(
        outcome=outcome,
        reason=reason,
        sender=sender,
        is_stale=not matchers[-1].passed,
        matchers=matchers,
        candidates=_good(extraction) if outcome in MATCHES else (),
    )


UNREADABLE = MailVerdict(
    outcome=MailOutcome.UNMATCHED,
    reason=MatchReason.UNREADABLE,
    sender="",
    is_stale=False,
    matchers=(MatcherVerdict(Matcher.CONTENT, False, MatchReason.UNREADABLE),),
)


def sender_of(message: Mapping[str, Any]) -> str:
    """Give the address of the From field in its one spelling; "" where there is none, or several.

    Of several authors one may be forged: what vouches for a domain vouches for one of them.
    """
    if MailProblem.SEVERAL_FROM in (message.get("problems") or ()):
        return ""
    address = read_address(((message.get("from") or {}).get("address")) or "")
    return "" if address is None else str(address)


def _outcome(
    verdicts: Mapping[Matcher, MatcherVerdict], extraction: Extraction
) -> tuple[MailOutcome, str]:
    if not verdicts[Matcher.ARRIVAL].passed:
        return MailOutcome.LATE, verdicts[Matcher.ARRIVAL].reason
    for matcher in (Matcher.SENDER, Matcher.SUBJECT):
        if not verdicts[matcher].passed:
            return MailOutcome.UNMATCHED, verdicts[matcher].reason
    if extraction.reason is Evidence.NOT_ALLOWED or not verdicts[Matcher.GUARD].passed:
        return MailOutcome.QUARANTINED, verdicts[Matcher.GUARD].reason
    if extraction.outcome is ExtractionOutcome.NONE:
        return MailOutcome.UNMATCHED, verdicts[Matcher.CONTENT].reason
    if not verdicts[Matcher.DMARC].passed:
        return MailOutcome.QUARANTINED, verdicts[Matcher.DMARC].reason
    if extraction.outcome is ExtractionOutcome.AMBIGUOUS:
        return MailOutcome.AMBIGUOUS, verdicts[Matcher.CONTENT].reason
    return MailOutcome.MATCHED, MatchReason.FOUND


def extract(policy: ExpectationPolicy, message: Mapping[str, Any]) -> Extraction:
    """Find what a policy asks for in a message."""
    texts = MailTexts(
        subject=message.get("subject") or "",
        text=message.get("text") or "",
        html=message.get("html") or "",
    )
    match policy.kind:
        case ArtifactKind.CODE:
            wanted = None if policy.code_format is None else parse_code_format(policy.code_format)
            return extract_code(texts, wanted, takes_only=policy.only_candidate)
        case ArtifactKind.LINK:
            hosts = [read_link_host(one) for one in policy.link_hosts]
            if texts.html and message.get("text_origin") == "html":
                # The words of an anchor stand in it without where that leads.
                texts = replace(texts, text="")
            return extract_link(texts, hosts, takes_only=policy.only_candidate)
        case ArtifactKind.STATE:
            return extract_state(texts, policy.states)
        case _:
            assert_never(policy.kind)


def _good(extraction: Extraction) -> tuple[ArtifactCandidate, ...]:
    best: dict[str, ArtifactCandidate] = {}
    for one in extraction.candidates:
        is_allowed = one.guard is None or one.guard.decision is LinkDecision.ALLOWED
        if one.is_good and is_allowed:
            best.setdefault(one.value, one)
    return tuple(best.values())[:CANDIDATES_KEPT_MAX]


def _arrival(received_ms: int, deadline_ms: int) -> MatcherVerdict:
    in_time = received_ms <= deadline_ms
    reason = MatchReason.IN_TIME if in_time else MatchReason.LATE
    return MatcherVerdict(Matcher.ARRIVAL, in_time, reason)


def match_sender(policy: ExpectationPolicy, sender: str) -> MatcherVerdict:
    """Judge a sender, given in the spelling of `sender_of`."""
    if not policy.senders:
        return MatcherVerdict(Matcher.SENDER, True, MatchReason.ANYBODY)
    if not sender:
        return MatcherVerdict(Matcher.SENDER, False, MatchReason.NO_SENDER)
    if sender in policy.senders:
        return MatcherVerdict(Matcher.SENDER, True, MatchReason.NAMED_ADDRESS)
    if f"@{sender.rpartition('@')[2]}" in policy.senders:
        return MatcherVerdict(Matcher.SENDER, True, MatchReason.NAMED_DOMAIN)
    return MatcherVerdict(Matcher.SENDER, False, MatchReason.OTHER_SENDER)


def _subject(policy: ExpectationPolicy, subject: str) -> MatcherVerdict:
    if not policy.subject_contains:
        return MatcherVerdict(Matcher.SUBJECT, True, MatchReason.ANY_SUBJECT)
    shown = _folded(subject)
    has_all = all(_folded(word) in shown for word in policy.subject_contains)
    reason = MatchReason.HAS_WORDS if has_all else MatchReason.LACKS_WORDS
    return MatcherVerdict(Matcher.SUBJECT, has_all, reason)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _content(extraction: Extraction) -> MatcherVerdict:
    is_found = extraction.outcome is not ExtractionOutcome.NONE
    reason = MatchReason.FOUND if extraction.reason is None else extraction.reason
    return MatcherVerdict(Matcher.CONTENT, is_found, reason)


def _guard_verdict(extraction: Extraction) -> MatcherVerdict:
    """Say whether the best link may be followed; codes and states lead nowhere."""
    best = extraction.winner or next(iter(extraction.candidates), None)
    if extraction.reason is Evidence.NOT_ALLOWED:
        rejected = filter(_is_rejected, extraction.candidates)
        best = max(rejected, key=lambda one: one.score, default=best)
    if best is None or best.guard is None or extraction.outcome is ExtractionOutcome.AMBIGUOUS:
        return MatcherVerdict(Matcher.GUARD, True, MatchReason.NOT_DEMANDED)
    if best.guard.decision is LinkDecision.ALLOWED:
        return MatcherVerdict(Matcher.GUARD, True, MatchReason.ALLOWED)
    # A mail without a link that it was sent for is none that a guard keeps back.
    keeps = extraction.winner is not None or extraction.reason is Evidence.NOT_ALLOWED
    return MatcherVerdict(Matcher.GUARD, not keeps, best.guard.reason)


def _is_rejected(candidate: ArtifactCandidate) -> bool:
    return candidate.guard is not None and candidate.guard.decision is LinkDecision.REJECTED


def _dmarc(
    policy: ExpectationPolicy, authentication: Mapping[str, Any] | None, sender: str
) -> MatcherVerdict:
    if not policy.require_dmarc:
        return MatcherVerdict(Matcher.DMARC, True, MatchReason.NOT_DEMANDED)
    check = (authentication or {}).get("dmarc")
    if not check:
        return MatcherVerdict(Matcher.DMARC, False, MatchReason.DMARC_UNKNOWN)
    domain = check.get("domain")
    is_aligned = domain is None or _organisation(domain) == _organisation(sender)
    passed = check.get("result") == "pass" and is_aligned
    reason = MatchReason.DMARC_PASS if passed else MatchReason.DMARC_FAIL
    return MatcherVerdict(Matcher.DMARC, passed, reason)


def _organisation(address: str) -> str:
    domain = address.rpartition("@")[2].lower().rstrip(".")
    return registrable_domain(domain) or domain


def _freshness(
    policy: ExpectationPolicy, message: Mapping[str, Any], opened_ms: int
) -> MatcherVerdict:
    if policy.any_age:
        return MatcherVerdict(Matcher.FRESHNESS, True, MatchReason.NOT_DEMANDED)
    times = [*_written_ms(message)]
    is_fresh = all(opened_ms - ms <= STALE_MS for ms in times)
    reason = MatchReason.FRESH if is_fresh else MatchReason.STALE_SUSPECT
    return MatcherVerdict(Matcher.FRESHNESS, is_fresh, reason)


def _written_ms(message: Mapping[str, Any]) -> Iterator[int]:
    """Give the time of the Date field, and of the first server that took the mail."""
    date_ms = iso_ms_of(message.get("date"))
    if date_ms is not None:
        yield date_ms
    headers: Sequence[Sequence[str]] = message.get("headers") or ()
    # Each server puts its own on top, so that the first one's stands last.
    received = [value for name, value in headers if name.lower() == "received"]
    if received:
        received_ms = read_date_ms(received[-1].rpartition(";")[2])
        if received_ms is not None:
            yield received_ms
