"""One receiver under load: what to send to it, and what its rounds gave."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.blast import Order, Outcome
from benchmarks.processes import Blaster, Postgres, Server

# More requests than any variant answers in a second; they are built before the clock starts.
RATE_MAX = 32_000
ARRAY_RATE_MAX = 130
ARRAY_CONNECTIONS = 8


@dataclass(slots=True)
class Variant:
    """One line of the table, and what its rounds gave."""

    server: Server
    title: str
    kind: str = "single"
    events: int = 1
    connections: int = 64
    rate_max: int = RATE_MAX
    database: str = ""
    path: str = ""
    sent: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    server_us: list[float] = field(default_factory=list)
    database_us: list[float] = field(default_factory=list)
    commits: int = 0

    def median(self, of: Callable[[Outcome], float]) -> float:
        return statistics.median(of(outcome) for outcome in self.outcomes)

    @property
    def rate(self) -> float:
        """Events in a second."""
        return self.median(lambda outcome: outcome.rate) * self.events

    @property
    def cpu_us(self) -> list[float]:
        """CPU time per event of server and database, round by round."""
        pairs = zip(self.server_us, self.database_us, strict=True)
        return [server + database for server, database in pairs]

    def clear(self) -> None:
        """Forget what the rounds gave; the events sent stay sent."""
        for values in (self.outcomes, self.server_us, self.database_us):
            values.clear()


def measure(variant: Variant, postgres: Postgres, blaster: Blaster, *, seconds: float) -> None:
    """Run one round of a variant, and keep what it gave."""
    server = variant.server
    blaster.prepare(
        Order(
            port=server.port,
            path=variant.path or server.path,
            kind=variant.kind,
            connections=variant.connections,
            seconds=seconds,
            first=variant.sent,
            count=max(variant.connections, int(variant.rate_max * seconds)),
        )
    )
    server_s, database_s = server.cpu_s(), postgres.cpu_s()
    outcome = blaster.run()
    server_s, database_s = server.cpu_s() - server_s, postgres.cpu_s() - database_s
    assert outcome.other == 0, f"{server.name}: {outcome.other} answers were not 200"
    assert set(outcome.statuses) <= {"accepted", "ok"}, f"{server.name}: {outcome.statuses}"
    events = outcome.ok * variant.events
    variant.sent += max(outcome.answered) - variant.sent + 1
    variant.outcomes.append(outcome)
    variant.server_us.append(server_s / events * 1e6)
    variant.database_us.append(database_s / events * 1e6)
