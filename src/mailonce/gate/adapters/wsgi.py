"""What adapters of blocking frameworks share: a passage that ends, and a lease that is kept."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from mailonce.errors import ConfigError, LeaseLostError, UnavailableError
from mailonce.gate.base import demand_gate
from mailonce.gate.gate import Gate, Passage
from mailonce.gate.rules.http import Response

# A lease is renewed well before it ends: two renewals may fail.
RENEWALS_PER_LEASE = 3
NO_GATE = "`gated` was given a view in place of a gate; write `@gated(gate)`"


def demand_blocking_gate(gate: object) -> None:
    """Refuse a decorator that was put on its view without its gate, or given a store.

    Raises: ConfigError.
    """
    demand_gate(gate, written="gated({})", gate="Gate", otherwise=NO_GATE)


def concluded(
    gate: Gate[Any],
    passage: Passage[Any],
    work: Callable[[], Response],
    *,
    ending: Callable[[], None] | None = None,
) -> tuple[Response | None, Response]:
    """Run `work` and end its passage; give the response of `work`, and the response to send.

    They are the same unless another copy was recorded first. `ending` runs in the thread that
    renewed a lease, when that is over. What `work` raises is raised again, after it was undone.
    """
    try:
        with _kept(passage, gate.rules.policy.lease_s, ending):
            made = work()
    except LeaseLostError:
        return None, passage.yield_to_holder().response
    except UnavailableError as error:
        passage.undo()
        return None, gate.rules.unavailable(error).response
    except BaseException:
        passage.abandon()
        raise
    return made, passage.finish(made).response


def held(chunks: Iterable[bytes], bytes_max: int) -> bytes:
    """Read a streamed response, which must be held back until the commit.

    Raises: ConfigError above the limit; the work is then undone.
    """
    kept: list[bytes] = []
    for chunk in chunks:
        bytes_max -= len(chunk)
        if bytes_max < 0:
            raise ConfigError(
                "the response is above `held_bytes_max`, and must be held back until the commit; "
                "raise that limit, or serve it by a view without a gate"
            )
        kept.append(chunk)
    return b"".join(kept)


@contextmanager
def _kept(
    passage: Passage[Any], lease_s: float, ending: Callable[[], None] | None
) -> Iterator[None]:
    """Renew a lease for as long as the work runs, in a thread: the work holds this one."""
    if not passage.leased:
        yield
        return
    done = Event()
    thread = Thread(target=_renew, args=(passage, lease_s, done, ending), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _renew(
    passage: Passage[Any], lease_s: float, done: Event, ending: Callable[[], None] | None
) -> None:
    try:
        while not done.wait(lease_s / RENEWALS_PER_LEASE) and not passage.lost:
            with suppress(UnavailableError):
                passage.renew()
    finally:
        if ending is not None:
            ending()
