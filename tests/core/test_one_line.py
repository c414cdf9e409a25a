"""A secret of several lines was pasted with something else, and is refused where it is given."""

from typing import Any

import pytest

from mailonce.core.one_line import is_one_line
from mailonce.core.sends.sender import Sender
from mailonce.errors import ConfigError
from mailonce.manage.senders import check_sender
from mailonce.manage.sources import check_source
from tests.providers.cases import source_of


def test_a_break_anywhere_makes_two_lines() -> None:
    assert [one for one in ("a", " a b ", "", "\t") if not is_one_line(one)] == []
    assert [one for one in ("a\nb", "a\n", "\na", "a\r\nb", "a\r") if is_one_line(one)] == []


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"secrets": ("good", "two\nlines")}, "secret"),
        ({"secrets": ("a line and its end\n",)}, "secret"),
        ({"basic": ("user:word\r\nmore",)}, "basic"),
        ({"tokens": ("two\rlines",)}, "token"),
        ({"headers": ("X-Word: w\nX-Other: o",)}, "header"),
        ({"api_keys": ("two\nlines",)}, "api_key"),
    ],
    ids=["second", "end", "basic", "token", "header", "api key"],
)
def test_a_proof_of_several_lines_is_refused_without_quoting_it(
    given: dict[str, Any], setting: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_source(source_of("mailgun", unproven=True, **given), window_days=35)

    assert f"`{setting}` has a line break" in str(refused.value)
    assert "several as a list" in str(refused.value)
    assert "lines" not in str(refused.value).replace("one line", "")


def test_a_key_in_pem_has_lines() -> None:
    pem = "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n"

    with pytest.raises(ConfigError) as refused:
        check_source(source_of("sendgrid", public_keys=(pem,)), window_days=35)

    assert "line break" not in str(refused.value), "what is wrong with it is something else"


@pytest.mark.parametrize("given", [{"secrets": ("two\nlines",)}, {"password": "two\nlines"}])
def test_a_credential_of_a_sender_has_one_line(given: dict[str, Any]) -> None:
    sender = Sender(
        id="s", workspace="w", name="out", provider="smtp" if "password" in given else "postmark",
        host="smtp.example.com" if "password" in given else "", username="ann", **given,
    )  # fmt: skip

    with pytest.raises(ConfigError, match="line break") as refused:
        check_sender(sender)

    assert "lines" not in str(refused.value)
