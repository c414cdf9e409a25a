"""The parts of calls: bodies of bytes that stay the same, and credentials added at the end."""

from mailonce.core.sends import calls
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import HttpRequest
from tests.core.sends.mails import CORRELATION, UUID, full_mail

SENDER = Sender(
    id="snr_1", workspace="default", name="out", provider="resend", secrets=("key-1", "key-2")
)


def test_credentials_are_added_to_a_copy() -> None:
    request = calls.json_post("https://api.example.com/v1", {"b": 1, "a": "ä"}, ("X-A", "b"))

    authorized = calls.bearer(request, SENDER, 0)

    assert request.body == '{"b":1,"a":"ä"}'.encode()
    assert request.headers == (("Content-Type", "application/json"), ("X-A", "b"))
    assert authorized.headers == (*request.headers, ("Authorization", "Bearer key-1"))
    assert calls.basic(HttpRequest(url="x"), "api", "key-1").headers == (
        ("Authorization", "Basic YXBpOmtleS0x"),
    )


def test_a_question_has_its_values_escaped() -> None:
    assert calls.get("https://x", {"a b": "c&d", "n": 1}).url == "https://x?a+b=c%26d&n=1"
    assert calls.get("https://x").url == "https://x"


def test_what_a_mail_lacks_is_left_out() -> None:
    assert calls.clean({"a": None, "b": "", "c": [], "d": {}, "e": 0, "f": False}) == {
        "e": 0,
        "f": False,
    }


def test_headers_and_files_of_a_mail() -> None:
    files, inline = calls.files_and_inline(full_mail())

    assert [one.name for one in files] == ["receipt.pdf"]
    assert [one.name for one in inline] == ["logo.png"]
    assert calls.headers_of(full_mail(), CORRELATION) == {
        "X-Mailonce-Id": UUID,
        "List-Unsubscribe": "<https://example.com/u/1>",
    }
    assert calls.base(SENDER, "https://a.example/") == "https://a.example"
