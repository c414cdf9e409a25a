"""A route chooses mail by sender, subject, inbox and attachments."""

from dataclasses import replace
from typing import Any

import pytest

from mailonce.core.deliveries.mail_filter import takes_mail, with_files
from mailonce.core.deliveries.route import Route

ROUTE = Route(id="rte_1", workspace="default", name="r")
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "inbox": "inb_1",
    "address": "ann@in.test",
    "from": {"address": "Shop@Example.org", "name": None},
    "subject": "Your ORDER 7",
    "attachments": [{"id": "a", "name": "a.txt"}, {"id": "b", "name": "b.txt"}],
}


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        ({}, True),
        ({"senders": ("shop@example.org",)}, True),
        ({"senders": ("@example.org",)}, True),
        ({"senders": ("@ple.org", "x@example.org")}, False),
        ({"subject_contains": ("order", "never")}, True),
        ({"subject_contains": ("never",)}, False),
        ({"inboxes": ("inb_1",)}, True),
        ({"inboxes": ("ann@in.test",)}, True),
        ({"inboxes": ("inb_2",)}, False),
        ({"has_attachments": True}, True),
        ({"has_attachments": False}, False),
        ({"senders": ("@example.org",), "subject_contains": ("never",)}, False),
    ],
)
def test_filters_must_all_agree(filters: dict[str, Any], passes: bool) -> None:  # noqa: FBT001
    assert takes_mail(replace(ROUTE, **filters), MESSAGE) is passes


def test_a_filter_over_mail_takes_no_other_event() -> None:
    assert takes_mail(ROUTE, None)
    assert not takes_mail(replace(ROUTE, senders=("@example.org",)), None)


def test_a_mail_without_sender_or_subject_is_no_match_and_no_error() -> None:
    bare = {**MESSAGE, "from": None, "subject": None, "attachments": []}

    assert not takes_mail(replace(ROUTE, senders=("@example.org",)), bare)
    assert not takes_mail(replace(ROUTE, subject_contains=("x",)), bare)
    assert takes_mail(replace(ROUTE, has_attachments=False), bare)


def test_attachments_stand_in_the_body_as_far_as_there_is_room() -> None:
    shown = {"message": MESSAGE}

    sent = with_files(shown, {"a": b"four", "b": b"fives"}, bytes_max=8)

    first, second = sent["message"]["attachments"]
    assert first["content"] == "Zm91cg=="
    assert "content" not in second
    assert "content" not in MESSAGE["attachments"][0]
    assert with_files(shown, {"a": b"four"}, bytes_max=0) is shown
