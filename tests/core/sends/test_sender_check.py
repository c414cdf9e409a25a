"""Senders that cannot work: one sentence for each, which never shows a credential."""

from dataclasses import replace
from typing import Any

import pytest

from mailonce.core.sends.sender import Sender, Tls
from mailonce.core.sends.sender_check import troubles_of_sender
from mailonce.providers import sending

BASE = Sender(
    id="snr_1",
    workspace="default",
    name="out",
    provider="x",
    secrets=("key-abc",),
    username="user",
    password="pass-abc",
    host="smtp.example.com",
    region="",
    domain="mg.example.com",
    endpoint="https://mail.example.com",
)
GOOD: dict[str, dict[str, Any]] = {
    "ses": {"region": "eu-west-1"},
    "scaleway": {"options": {"project_id": "p"}},
}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("resend", {"secrets": ()}, "needs `secret`"),
    ("mailgun", {"domain": ""}, "needs `domain`"),
    ("mailgun", {"region": "mars"}, "`region`"),
    ("postal", {"endpoint": ""}, "needs `endpoint`"),
    ("smtp", {"host": ""}, "needs `host`"),
    ("smtp", {"host": "mail.example.com:25"}, "`host`"),
    ("smtp", {"host": "2001:db8::1"}, ""),
    ("smtp", {"host": "mail example"}, "`host`"),
    ("smtp", {"host": "a\r\nRCPT TO:<b>"}, "`host`"),
    ("smtp", {"tls": Tls.NONE}, "`username`"),
    ("smtp", {"tls": Tls.NONE}, "`options = {plain_login = true}`"),
    ("smtp", {"options": {"mail_from": "x"}}, "`mail_from`"),
    ("smtp", {"password": "a\r\nb"}, "`password`"),
    ("ses", {"region": "mars"}, "`region`"),
    ("sendgrid", {"options": {"lookup": "maybe"}}, "`lookup`"),
    ("sendgrid", {"options": {"look_up": "activity"}}, "no option 'look_up'; did you mean lookup?"),
    ("scaleway", {"options": {}}, "`project_id`"),
    ("resend", {"secrets": ("key\r\nX: y",)}, "`secret`"),
    ("resend", {"endpoint": "ftp://example.com"}, "`endpoint`"),
    ("resend", {"endpoint": "https://user:pass@example.com"}, "`endpoint`"),
    ("resend", {"endpoint": "https://example.com/?a=b"}, "`endpoint`"),
    ("resend", {"waits_s": (1.0,) * 51}, "`waits_s`"),
    ("resend", {"name": "x" * 101}, "`name`"),
]


def troubles(provider: str, **changes: Any) -> list[str]:
    found = sending.find(provider)
    assert found is not None
    settings = {**GOOD.get(provider, {}), **changes}
    return list(troubles_of_sender(replace(BASE, provider=provider, **settings), found))


def test_each_provider_has_a_sender_that_works(subtests: pytest.Subtests) -> None:
    for name in sending.names():
        with subtests.test(name):
            assert troubles(name) == []


def test_what_is_wrong_is_named(subtests: pytest.Subtests) -> None:
    for provider, changes, words in BAD:
        with subtests.test(f"{provider} {words}"):
            found = troubles(provider, **changes)

            assert bool(found) is bool(words)
            assert not words or words in found[0]
            assert not any("abc" in trouble for trouble in found)
