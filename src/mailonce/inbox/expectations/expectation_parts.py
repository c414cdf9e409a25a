"""The parts that all stages of an expectation share."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from mailonce.clock import Clock
from mailonce.core.expectations.artifact import ArtifactKeys, SealedArtifact, place_of
from mailonce.core.expectations.consumption import LEASE_S
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.redemption import Redemption
from mailonce.core.expectations.resend import WAIT_S
from mailonce.core.ids import private, public
from mailonce.core.signatures.sealing import NONCE_BYTES, UNREADABLE, Sealer
from mailonce.errors import GoneError, MissingError, UnavailableError
from mailonce.net.http import GuardedClient
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import ExpectationMetrics

ID_PREFIX = "exp"
ARTIFACT_PREFIX = "art"
CONSUMPTION_PREFIX = "con"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationRules:
    """What the settings say."""

    # Hosts of links that an agent's key may name.
    link_hosts: Sequence[str] = ()
    lease_s: float = LEASE_S
    resend_wait_s: float = WAIT_S
    # Expectations of one inbox that can still change.
    open_max: int = 100


@dataclass(slots=True, kw_only=True)
class ExpectationParts:
    """What expectations work with; `rules` change with the settings.

    `now_ms` is the database's clock; `publish` tells every process what changed.
    """

    database: Database
    clock: Clock
    sealer: Sealer
    keys: ArtifactKeys
    client: GuardedClient
    now_ms: Callable[[], Awaitable[int]]
    publish: Callable[[Collection[str]], None]
    metrics: ExpectationMetrics
    rules: ExpectationRules
    # Requests that are being made, whoever waits for them.
    redeeming: "set[asyncio.Task[Redemption]]" = field(default_factory=set)

    def seal(self, value: str, workspace: str, id_: bytes) -> bytes:
        nonce = self.clock.chance(NONCE_BYTES)
        return self.sealer.seal(value.encode(), place=place_of(workspace, id_), nonce=nonce)

    def open_value(self, artifact: SealedArtifact | None) -> str:
        """Give the value of an artifact.

        Raises: GoneError where it was deleted with its inbox, UnavailableError where no master
        key opens it.
        """
        if artifact is None or artifact.sealed is None:
            raise GoneError("the value was deleted with its inbox; open a new expectation")
        place = place_of(artifact.workspace, artifact.id)
        opened = self.sealer.try_open(artifact.sealed, place=place)
        if opened is None:
            raise UnavailableError(UNREADABLE)
        return opened.decode()

    def tell(self, id_: bytes, state: ExpectationState) -> None:
        """Count a change of state, and wake whoever waits for it; called after the commit."""
        self.metrics.moved(state)
        self.publish([topic_of(id_)])


def topic_of(id_: bytes) -> str:
    return public(ID_PREFIX, id_)


def expectation_id(text: str) -> bytes:
    """Read the id of an expectation.

    Raises: MissingError.
    """
    return private(ID_PREFIX, text)


def missing_expectation() -> MissingError:
    return MissingError("there is no such expectation; see GET /v1/expectations")
