"""Resend: what its golden cases cannot say."""

import pytest

from tests.providers.cases import find, keys, parse, provider_of, source_of

BODY = find("resend", "email_opened").value


def svix(id_: str) -> dict[str, str]:
    return {"svix-id": id_, "svix-timestamp": "1767225600", "svix-signature": "v1,"}


def test_an_event_is_known_by_svixs_id_on_every_attempt_and_replay() -> None:
    first = svix("msg_1")
    replay = {**first, "svix-timestamp": "1767300000", "svix-signature": "v1,another"}

    assert keys("resend", BODY, first) == keys("resend", BODY, replay)
    assert parse("resend", BODY, first).delivery_id == "msg_1"


def test_events_that_are_equal_in_all_but_their_id_are_two() -> None:
    [one], [other] = keys("resend", BODY, svix("msg_1")), keys("resend", BODY, svix("msg_2"))

    assert one.key != other.key


def test_other_content_under_one_id_is_a_conflict() -> None:
    moved = {**BODY, "data": {**BODY["data"], "to": ["bob@example.net"]}}

    [one], [other] = keys("resend", BODY, svix("msg_1")), keys("resend", moved, svix("msg_1"))

    assert one.key == other.key
    assert one.fingerprint != other.fingerprint


def test_an_event_that_concerns_no_message_and_lost_its_headers_is_its_own_key() -> None:
    contact = find("resend", "contact_created").value
    other_contact = {**contact, "data": {**contact["data"], "email": "bob@example.net"}}

    [one], [other] = keys("resend", contact), keys("resend", other_contact)

    assert one.key != other.key


@pytest.mark.parametrize(
    ("secret", "fault"),
    [("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", None), ("whsec_?", "whsec_ and base64")],
)
def test_a_secret_that_cannot_be_one_is_named(secret: str, fault: str | None) -> None:
    sentence = provider_of("resend").check(source_of("resend", secrets=(secret,)))

    assert sentence is None if fault is None else fault in (sentence or "")
