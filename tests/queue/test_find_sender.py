"""Which sender a request gets: the one that it names, or the first of its workspace that is on."""

from typing import Any

from mailonce.core.sends.sender import Sender
from mailonce.queue.configuration import Configuration


def make_sender(name: str, **changes: Any) -> Sender:
    given: dict[str, Any] = {"id": f"snr_{name}", "workspace": "default", "name": name}
    return Sender(**given | {"provider": "smtp", "secrets": ("key",)} | changes)


def configuration(*senders: Sender) -> Configuration:
    return Configuration(senders={sender.id: sender for sender in senders})


def test_without_a_name_it_is_the_oldest_that_is_on() -> None:
    off, first, second = make_sender("a", off="by hand"), make_sender("b"), make_sender("c")

    assert configuration(off, first, second).find_sender("default", None) is first
    assert configuration(off).find_sender("default", None) is off
    assert configuration().find_sender("default", None) is None


def test_by_id_or_name_the_oldest_is_found_also_where_it_is_off() -> None:
    off, other = make_sender("a", off="by hand"), make_sender("b")
    # Named as the id of an older one.
    later = make_sender("snr_a", id="snr_c")
    found = configuration(off, other, later)

    assert found.find_sender("default", "a") is found.find_sender("default", "snr_a") is off
    assert found.find_sender("default", "snr_c") is later
    assert found.find_sender("default", "nobody") is None


def test_a_workspace_has_senders_of_its_own() -> None:
    ours, theirs = make_sender("out"), make_sender("out", id="snr_x", workspace="other")
    found = configuration(theirs, ours)

    assert found.find_sender("default", "out") is found.find_sender("default", None) is ours
    assert found.find_sender("other", "out") is theirs
    assert found.find_sender("default", "snr_x") is None
