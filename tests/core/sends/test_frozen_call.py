"""A call that was kept is repeated by the account that made it, and by no other."""

from dataclasses import replace

import pytest

from mailonce.core.sends.frozen_call import read_call, written_call
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import HttpRequest

SENDER = Sender(
    id="snr_1", workspace="default", name="out", provider="resend", secrets=("key-1", "key-2")
)
REQUEST = HttpRequest(url="https://api.example.com/emails", body=b"{}")


def test_the_same_account_reads_the_same_bytes() -> None:
    kept = written_call(REQUEST, SENDER)

    assert read_call(kept, replace(SENDER, concurrency=99, waits_s=(1.0,))) == REQUEST
    assert b"key-1" not in kept


@pytest.mark.parametrize(
    "changes",
    [{"secrets": ("key-2",)}, {"endpoint": "https://other.example"}, {"domain": "b.example"},
     {"username": "u"}, {"provider": "emailit"}, {"region": "eu"}],
)  # fmt: skip
def test_another_account_reads_nothing(changes: dict[str, object]) -> None:
    kept = written_call(REQUEST, SENDER)

    assert read_call(kept, replace(SENDER, **changes)) is None  # type: ignore[arg-type]
