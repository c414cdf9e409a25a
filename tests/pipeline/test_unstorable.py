"""One text that a database cannot hold costs nobody else, and is kept all the same."""

import pytest

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed
from mailonce.core.json_text import Unreadable
from mailonce.core.ledger.entry import ArrivalOutcome, Status
from mailonce.pipeline.parse import dead_entry, entry_of
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import Metrics
from tests.factories import make_body, make_entry, make_source

HOSTILE = ["a\x00b", "\ud800 alone", "x" * 10_000, "\U0001f4e7" * 3_000]


@pytest.mark.parametrize("text", HOSTILE, ids=["NUL", "surrogate", "long", "wide"])
async def test_reasons_ids_and_addresses_of_any_kind_are_kept(
    database: Database, text: str
) -> None:
    clock, source = Clock(), make_source()
    provider = providers.find("sesmetric")
    assert provider is not None
    arrival = Arrival(method="POST", headers={}, body=text.encode("utf-8", "replace"), now_ms=0)
    parsed = Parsed(unreadable=(Unreadable(0, text, b"element"),), delivery_id=text[:1])
    entries = [
        dead_entry(provider, source, arrival, text, new_id=clock.new_id),
        entry_of(provider, source, arrival, parsed, new_id=clock.new_id),
        make_entry(
            source,
            make_body("hostile", message_id="m", recipient="a@example.net"),
            now_ms=clock.now_ms(),
        ),
    ]
    recorder = Recorder(database, clock, Metrics(), Limits())
    recorder.start()

    answers = [await recorder.record(entry) for entry in entries]

    await recorder.close()
    assert [one.status for one in answers if isinstance(one, ArrivalOutcome)] == [
        Status.DEAD_LETTER,
        Status.DEAD_LETTER,
        Status.ACCEPTED,
    ]
