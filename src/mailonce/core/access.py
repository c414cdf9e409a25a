"""Who may do what: API keys belong to one workspace and have one scope."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from mailonce.errors import AccessError

KEY_PREFIX = "mok_"


class Scope(StrEnum):
    """What a key may be used for; `ADMIN` is the operator of the whole installation."""

    ADMIN = "admin"
    OPERATOR = "operator"
    READER = "reader"
    SENDER = "sender"
    AGENT = "agent"


READS = frozenset({Scope.ADMIN, Scope.OPERATOR, Scope.READER})
WRITES = frozenset({Scope.ADMIN, Scope.OPERATOR})
SENDS = WRITES | {Scope.SENDER}
READS_SENDS = READS | {Scope.SENDER}
EXPECTS = WRITES | {Scope.AGENT}
READS_EXPECTATIONS = READS | {Scope.AGENT}


@dataclass(frozen=True, slots=True)
class ChildGrant:
    """What a child key may do: one expectation, so many values, until then."""

    id: bytes
    expectation: str
    uses: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Caller:
    """A proven caller, acting in one workspace."""

    workspace: str
    scope: Scope
    # The id of its key; a local caller has none.
    key: str = "local"
    # Of a child key; None for all others.
    child: ChildGrant | None = None
    # Of a local caller: who runs the command, where it says so.
    user: str = ""

    @property
    def by(self) -> str:
        """Who it is, for what is written down: the same name wherever that is read."""
        return f"local:{self.user}" if self.user else self.key

    @property
    def is_admin(self) -> bool:
        return self.scope is Scope.ADMIN


def digest_of(secret: str) -> bytes:
    """Hash an API key for storage; it is long and random, so a plain hash suffices."""
    return sha256(b"mailonce key\0" + secret.encode("utf-8", "replace")).digest()


def demand(caller: Caller, scopes: frozenset[Scope]) -> None:
    """Let the caller pass if its scope is among `scopes`.

    Raises: AccessError which names the scope that would do.
    """
    if caller.scope not in scopes:
        least = "admin" if scopes == {Scope.ADMIN} else max(scopes - {Scope.ADMIN}).value
        article = "an" if least[0] in "ao" else "a"
        raise AccessError(
            f"this needs {article} {least} key; yours has the scope {caller.scope.value}"
        )
