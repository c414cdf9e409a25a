"""Whether a link may be followed, and why."""

from dataclasses import dataclass
from enum import StrEnum


class LinkDecision(StrEnum):
    ALLOWED = "allowed"
    # A person decides: it may be right, but where it leads cannot be known from here.
    REVIEW = "review"
    REJECTED = "rejected"


class LinkReason(StrEnum):
    """Why a link is allowed, for review, or rejected."""

    ALLOWED_HOST = "allowed_host"
    # For review.
    CLICK_TRACKER = "click_tracker"
    FOREIGN_REDIRECT = "foreign_redirect"
    ENCODED_PATH = "encoded_path"
    # Rejected: how it is written.
    TOO_LONG = "too_long"
    CONTROL_CHARACTER = "control_character"
    WHITESPACE = "whitespace"
    BACKSLASH = "backslash"
    NOT_HTTPS = "not_https"
    WRONG_SLASHES = "wrong_slashes"
    USER_IN_HOST = "user_in_host"
    PERCENT_IN_HOST = "percent_in_host"
    LOOKALIKE_HOST = "lookalike_host"
    MIXED_SCRIPTS = "mixed_scripts"
    NOT_ASCII_HOST = "not_ascii_host"
    BAD_HOST = "bad_host"
    BAD_PORT = "bad_port"
    OTHER_PORT = "other_port"
    # Rejected: where it leads.
    IP_ADDRESS = "ip_address"
    INTERNAL_NAME = "internal_name"
    PUNYCODE = "punycode"
    PUBLIC_SUFFIX = "public_suffix"
    HOST_NOT_ALLOWED = "host_not_allowed"
    PATH_NOT_ALLOWED = "path_not_allowed"
    WRAPPED_TOO_DEEP = "wrapped_too_deep"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRule:
    """A host that links may lead to, and the start of their paths; set by the operator.

    A registrable domain (`example.com`) includes its subdomains, any other name is that host
    alone. A local server is allowed by naming exactly how it is addressed, as in
    `LinkRule(host="127.0.0.1", scheme="http", port=8000)`.
    """

    host: str
    path_prefix: str = "/"
    scheme: str = "https"
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkVerdict:
    """The verdict over one link, with its parts where it could be read.

    `url` is written with RFC 3986's characters alone: what was opened and is to be followed.
    """

    decision: LinkDecision
    reason: LinkReason
    url: str = ""
    scheme: str = ""
    host: str = ""
    port: int | None = None
    path: str = ""
    query: str = ""
    fragment: str = ""
    # The registrable domain, by the public suffix list.
    domain: str = ""
    # Hosts of the click-wrappers that were opened, outermost first.
    wrappers: tuple[str, ...] = ()
