"""The kinds of exceptions that mailonce raises, split by who must act; modules derive their own.

MailonceError
├── ConfigError        the operator must change a setting            exit 2
│   └── TakenError     another process has the database's file open
├── RefusedError       the caller must change the request            HTTP 4xx
│   ├── ParseError     not what is documented                        400
│   ├── VerifyError    the sender, or the caller, is not verified    401
│   ├── AccessError    authenticated, but not allowed                403
│   ├── MissingError   no such thing                                 404
│   ├── ClashError     it exists already, with other content         409
│   ├── GoneError      it was there, and is not any more             410
│   └── SizeError      above a limit                                 413
└── UnavailableError   nobody is wrong; try again later              HTTP 503
    └── LeaseLostError another holds the lease now; stop             503
"""

from collections.abc import Mapping
from types import MappingProxyType


class MailonceError(Exception):
    """Anything mailonce raises on purpose.

    `members` are facts that a program may go on with; they stand beside the sentence in a problem.
    """

    code = "error"
    members: Mapping[str, int | str] = MappingProxyType({})


class ConfigError(MailonceError):
    """The operator must change a setting."""

    code = "config"


class TakenError(ConfigError):
    """Another process has the file of a database open, which takes one."""


class RefusedError(MailonceError):
    """The caller must change the request; trying the same again is pointless."""

    code = "refused"


class ParseError(RefusedError):
    """The bytes are not what is documented."""

    code = "parse"


class VerifyError(RefusedError):
    """The sender or caller is not verified."""

    code = "verify"


class AccessError(RefusedError):
    """The caller is authenticated, but may not do this."""

    code = "access"


class MissingError(RefusedError):
    """There is no such thing."""

    code = "missing"


class ClashError(RefusedError):
    """A thing of that name or key exists already, with other content."""

    code = "clash"


class GoneError(RefusedError):
    """What was asked for was there once, and is not any more."""

    code = "gone"


class SizeError(RefusedError):
    """Above a limit."""

    code = "size"


class UnavailableError(MailonceError):
    """Nothing is wrong with the request; try again later."""

    code = "unavailable"
    # The reason under which a door counts an arrival that it cannot take now.
    reason = "other"


class LeaseLostError(UnavailableError):
    """Another holds the lease now; nothing that the former holder does counts."""

    code = "lease_lost"
