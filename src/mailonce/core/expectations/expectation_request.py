"""A request to open an expectation: what may be asked for, and the policy that follows."""

import re
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from mailonce.core import bounds
from mailonce.core.argument_error import ArgumentAccessError, ArgumentError
from mailonce.core.expectations.expectation import (
    DEADLINE_S,
    DEADLINE_S_MAX,
    RESENDS,
    RESENDS_MAX,
    ExpectationPolicy,
)
from mailonce.core.expectations.link_host import is_within, link_host_text, read_link_host
from mailonce.core.extraction.code_format import parse_code_format
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.core.extraction.mail_texts import MailTexts
from mailonce.core.extraction.named_states import STATE_CHARS_MAX, STATES_MAX, extract_state
from mailonce.core.mail.address import read_address, read_domain

SENDERS_MAX = 20
SUBJECT_WORDS_MAX = 10
SUBJECT_WORD_CHARS_MAX = 200
LINK_HOSTS_MAX = 20
SUBJECT_CHARS_MAX = 200
KEY = re.compile(r"[!-~]{1,255}")
# What an agent hears of a state is one of the words named here.
_STATE = re.compile(r"[^\x00-\x1f\x7f]{1,40}")


class LinkHostError(ArgumentAccessError):
    """An agent's key named a host that the operator did not allow."""

    code = "link_host"


class ExpectationRequest(Struct, frozen=True, kw_only=True):
    """An expectation as a caller asks for it."""

    kind: ArtifactKind
    senders: tuple[str, ...] = ()
    subject_contains: tuple[str, ...] = ()
    code_format: str | None = None
    link_hosts: tuple[str, ...] = ()
    only_candidate: bool = False
    states: tuple[str, ...] = ()
    require_dmarc: bool = False
    # None: the inbox.
    subject: str | None = None
    deadline_s: float = DEADLINE_S
    resends: int = RESENDS
    # The number of the inbox behind which mail counts, however old it is; None: what comes from now
    # on, unless it was written well before.
    after: int | None = None


def policy_of(request: ExpectationRequest) -> ExpectationPolicy:
    """Give what a mail must be like, in its one spelling.

    Raises: ArgumentError where the request asks for what may not be.
    """
    _check_limits(request)
    kind = request.kind
    _belongs("code_format", request.code_format, kind, ArtifactKind.CODE)
    _belongs("link_hosts", request.link_hosts, kind, ArtifactKind.LINK)
    _belongs("states", request.states, kind, ArtifactKind.STATE)
    if kind is ArtifactKind.LINK and not request.link_hosts:
        raise ArgumentError(
            "`link_hosts` is missing; name the hosts that a link may lead to, such as example.com"
        )
    if request.only_candidate and not (request.link_hosts or request.code_format):
        raise ArgumentError(
            "`only_candidate` needs `link_hosts` or a `code_format`; name it as well"
        )
    if request.code_format is not None:
        _check_format(request.code_format)
    if kind is ArtifactKind.STATE:
        _check_states(request.states)
    return ExpectationPolicy(
        kind=kind,
        senders=read_senders(request.senders),
        subject_contains=tuple(dict.fromkeys(request.subject_contains)),
        code_format=request.code_format,
        link_hosts=read_link_hosts(request.link_hosts),
        only_candidate=request.only_candidate,
        states=request.states,
        require_dmarc=request.require_dmarc,
        any_age=request.after is not None,
    )


def check_agent_hosts(policy: ExpectationPolicy, allowed: Sequence[str]) -> None:
    """See that an agent's key asks for no hosts but those that the operator allows to all.

    Raises: LinkHostError.
    """
    wider = [read_link_host(one) for one in allowed]
    for text in policy.link_hosts:
        if not any(is_within(read_link_host(text), one) for one in wider):
            raise LinkHostError(
                f"`link_hosts` has {text[:200]!r}, which is not within the setting "
                "expectations.link_hosts, all that an agent's key may name; whoever runs "
                "the server can add it there, word for word"
            )


def check_agent_watermark(request: ExpectationRequest) -> None:
    """See that an agent's key asks for no mail that came before.

    Raises: ArgumentAccessError.
    """
    if request.after is not None:
        raise ArgumentAccessError(
            "`after` needs an operator's key; open the expectation before the mail"
        )


def read_senders(senders: Sequence[str]) -> tuple[str, ...]:
    """Give senders in their one spelling: addresses in small letters, and @domain.

    Raises: ArgumentError.
    """
    read: list[str] = []
    for one in senders:
        if one.startswith("@"):
            domain = read_domain(one[1:])
            spelling = None if domain is None else f"@{domain}"
        else:
            address = read_address(one)
            spelling = None if address is None else str(address)
        if spelling is None:
            raise ArgumentError(
                f"`senders` has {one[:80]!r}; write an address, or @example.com for all of a domain"
            )
        read.append(spelling)
    return tuple(dict.fromkeys(read))


def read_link_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Give hosts of links in their one spelling.

    Raises: ArgumentError.
    """
    try:
        return tuple(dict.fromkeys(link_host_text(read_link_host(one)) for one in hosts))
    except ValueError as error:
        raise ArgumentError(f"`link_hosts`: {error}") from error


def request_key(idempotency_key: str, by: str) -> bytes:
    """Give the key by which the expectation of a request is found again.

    It is the caller's own (`by`, the id of an API key): two agents who choose the same word mean
    two expectations, and neither is handed the address of the other's.
    Raises: ArgumentError where the word cannot be a key.
    """
    if KEY.fullmatch(idempotency_key) is None:
        raise ArgumentError(
            "`Idempotency-Key` has 1 to 255 printable ASCII characters without spaces; shorten it"
        )
    return sha256(f"expectation request\0{by}\0{idempotency_key}".encode()).digest()[:16]


def fingerprint_of_request(request: ExpectationRequest, place: str) -> bytes:
    """Hash what a request asks for; `place` is the inbox, or what the caller wants of a new one."""
    fields = msgspec.to_builtins(request)
    if not request.only_candidate:
        # As it was hashed before this field was known: a request may be repeated after an upgrade.
        del fields["only_candidate"]
    return sha256(msgspec.json.encode([place, fields], order="sorted")).digest()[:16]


def _check_limits(request: ExpectationRequest) -> None:
    limits = {
        "senders": (SENDERS_MAX, 320),
        "subject_contains": (SUBJECT_WORDS_MAX, SUBJECT_WORD_CHARS_MAX),
        "link_hosts": (LINK_HOSTS_MAX, 500),
        "states": (STATES_MAX, STATE_CHARS_MAX),
    }
    troubles = [*bounds.of_lists(request, limits)]
    if request.subject is not None:
        troubles += bounds.of_text("for", request.subject, SUBJECT_CHARS_MAX)
        if not request.subject.strip():
            troubles.append("`for` is empty; name whom it counts for, or leave it out")
    if not all(word.strip() for word in request.subject_contains):
        troubles.append("`subject_contains` has an empty word; take it out")
    if not 1 <= request.deadline_s <= DEADLINE_S_MAX:
        troubles.append(f"`deadline_s` is {request.deadline_s:g}; use 1 to {DEADLINE_S_MAX}")
    if not 0 <= request.resends <= RESENDS_MAX:
        troubles.append(f"`resends` is {request.resends}; use 0 to {RESENDS_MAX}")
    for trouble in troubles:
        raise ArgumentError(trouble)


def _belongs(name: str, value: object, kind: ArtifactKind, wanted: ArtifactKind) -> None:
    if value and kind is not wanted:
        raise ArgumentError(
            f"`{name}` is for the kind {wanted}, and this is a {kind}; leave it out"
        )


def _check_format(text: str) -> None:
    try:
        parse_code_format(text)
    except ValueError as error:
        raise ArgumentError(f"`code_format`: {error}") from error


def _check_states(states: Sequence[str]) -> None:
    try:
        extract_state(MailTexts(), states)
    except ValueError as error:
        raise ArgumentError(f"`states`: {error}") from error
    for state in states:
        if _STATE.fullmatch(state) is None:
            raise ArgumentError(f"`states` has {state[:40]!r}; use words that can be printed")
