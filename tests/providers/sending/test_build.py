"""What is sent: the golden request of each provider, without credentials until it leaves."""

import json

import pytest

from mailonce.core.sends.sending import HttpRequest, SmtpRequest, frozen_bytes, read_frozen
from mailonce.providers import sending
from tests.core.sends.mails import CORRELATION, NOON_MS, UUID
from tests.providers.sending.golden import FACTS, MAILS, golden, sender_of, sending_of, shown

SECRETS = ("SG.key", "token-1", "re_key", "em_key", "md-key", "sp-key", "xkeysib-1", "mlsn.1",
           "word", "mt-1", "api-1", "scw-1", "postal-1", "key-1")  # fmt: skip


@pytest.mark.parametrize("name", sending.names())
def test_a_request_is_the_golden_one(name: str, subtests: pytest.Subtests) -> None:
    case, sender = golden(name), sender_of(name)
    for kind, mail in MAILS.items():
        with subtests.test(kind):
            request = sending_of(name).build(mail, CORRELATION, sender)

            assert shown(request, case.get("further_headers", {}).get(kind, "")) == case[kind]
            if isinstance(request, HttpRequest):
                assert request.url == case["url"]
                headers = {n: v.partition("boundary=")[0] for n, v in request.headers}
                assert headers == {
                    n: v.partition("boundary=")[0] for n, v in case["headers"].items()
                }


@pytest.mark.parametrize("name", sending.names())
def test_the_frozen_bytes_hold_no_credential_and_stay_the_same(name: str) -> None:
    sender = sender_of(name)
    request = sending_of(name).build(MAILS["full"], CORRELATION, sender)

    frozen = frozen_bytes(request)

    assert not any(secret.encode() in frozen for secret in SECRETS)
    assert UUID.encode() in frozen or name in {"ses", "postal"}
    assert read_frozen(frozen) == request
    assert frozen_bytes(sending_of(name).build(MAILS["full"], CORRELATION, sender)) == frozen


@pytest.mark.parametrize("name", [one for one in sending.names() if one != "smtp"])
def test_credentials_are_added_when_it_leaves(name: str) -> None:
    case, sender = golden(name), sender_of(name)
    request = sending_of(name).build(MAILS["plain"], CORRELATION, sender)
    assert isinstance(request, HttpRequest)

    authorized = sending_of(name).authorize(request, sender, NOON_MS)

    added = dict(authorized.headers[len(request.headers) :])
    expected = case["credentials"]
    assert {n: "*" if expected.get(n) == "*" else v for n, v in added.items()} == expected
    if "credential_fields" in case:
        body = json.loads(authorized.body)
        assert body == {**json.loads(request.body), **case["credential_fields"]}
    else:
        assert authorized.body == request.body


@pytest.mark.parametrize("name", sending.names())
def test_a_lookup_is_the_golden_one(name: str) -> None:
    found, case = sending_of(name), golden(name).get("lookup")
    assert (found.lookup is None) is (found.read_lookup is None) is (case is None)
    if found.lookup is None or case is None:
        return
    sender = sender_of(name, **({"options": case["options"]} if "options" in case else {}))

    request = found.lookup(CORRELATION, sender, FACTS)

    assert request is not None
    assert (request.method, request.url) == (case["method"], case["url"])
    assert (json.loads(request.body) if request.body else None) == case.get("json")
    assert found.authorize(request, sender, NOON_MS) != request


def test_a_lookup_that_needs_an_option_is_none_without_it() -> None:
    for name in ("sendgrid", "mailersend"):
        lookup = sending_of(name).lookup
        assert lookup is not None

        assert lookup(CORRELATION, sender_of(name), FACTS) is None


def test_sendgrid_can_be_asked_by_category() -> None:
    sender = sender_of("sendgrid", options={"lookup": "category"})
    request = sending_of("sendgrid").build(MAILS["plain"], CORRELATION, sender)
    assert isinstance(request, HttpRequest)
    lookup = sending_of("sendgrid").lookup
    assert lookup is not None

    question = lookup(CORRELATION, sender, FACTS)

    assert question is not None
    assert json.loads(request.body)["categories"] == [f"mailonce-{UUID}"]
    assert json.loads(question.body)["query"] == f"categories IN ('mailonce-{UUID}')"


def test_each_record_says_what_it_promises(subtests: pytest.Subtests) -> None:
    for name in sending.names():
        with subtests.test(name):
            found = sending_of(name)
            assert found.name == name
            assert found.promise.endswith(".")
            assert found.docs.startswith("https://")
            assert (found.read_answer is None) is (name == "smtp")
            if found.native is not None:
                assert found.native.safe_s <= found.native.window_s * 0.8


def test_a_name_that_nobody_has_is_none() -> None:
    assert sending.find("pigeon") is None


def test_what_a_mail_says_of_its_recipient_is_its_envelope() -> None:
    request = sending_of("smtp").build(MAILS["plain"], CORRELATION, sender_of("smtp", options={}))

    assert isinstance(request, SmtpRequest)
    assert (request.mail_from, request.rcpt_to) == ("shop@example.com", "ann@example.net")
