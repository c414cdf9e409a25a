"""A sender: its credentials are not shown by accident, and its settings are found by name."""

import pytest

from mailonce.core.sends.sender import SETTINGS, Sender


def test_credentials_are_not_in_what_a_log_would_show() -> None:
    sender = Sender(
        id="snr_1",
        workspace="default",
        name="out",
        provider="smtp",
        secrets=("key-abc",),
        password="pass-abc",
    )

    assert "abc" not in repr(sender)


def test_settings_are_everything_but_identity_and_state() -> None:
    names = set(SETTINGS.names)

    assert names.isdisjoint({"id", "workspace", "name", "provider", "off", "is_unreadable"})
    assert names >= {"host", "port", "tls", "secrets", "timeout_s", "mode", "next_sender"}
    assert SETTINGS.lists == {"secrets", "waits_s"}


@pytest.mark.parametrize(
    ("provider", "options", "seconds"),
    [
        ("resend", {}, 10 + 20),
        ("smtp", {}, 3 * 20 + 2 * 300 + 600),
        ("smtp", {"dot_timeout_s": 30}, 3 * 20 + 2 * 300 + 30),
    ],
)
def test_a_call_ends_before_a_lease_on_it_must(
    provider: str, options: dict[str, object], seconds: float
) -> None:
    sender = Sender(
        id="snr_1",
        workspace="default",
        name="out",
        provider=provider,
        timeout_s=20,
        options=options,
    )

    assert sender.call_s_max == seconds
