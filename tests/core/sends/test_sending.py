"""The contract of sending: frozen requests come back as they were, and a send has one UUID."""

import pytest

from mailonce.core.sends.sending import (
    Frozen,
    HttpRequest,
    SmtpRequest,
    correlation_uuid,
    frozen_bytes,
    read_frozen,
)

HTTP = HttpRequest(url="https://api.example.com/v1/send", headers=(("A", "b"),), body=b"\xff\0{}")
SMTP = SmtpRequest(mail_from="a@example.com", rcpt_to="bö@example.net", message=b"A: b\r\n\r\n\xff")


@pytest.mark.parametrize("request_", [HTTP, SMTP], ids=["http", "smtp"])
def test_a_frozen_request_comes_back_as_it_was(request_: Frozen) -> None:
    assert read_frozen(frozen_bytes(request_)) == request_


def test_one_key_has_one_uuid_and_another_key_or_workspace_another() -> None:
    uuids = {
        correlation_uuid(workspace, key)
        for workspace, key in [
            ("default", "k"),
            ("default", "k2"),
            ("other", "k"),
            ("d", "efault|k"),
        ]
    }

    assert len(uuids) == 4
    # It stands in ledgers and at providers: another release must not make another one.
    assert correlation_uuid("default", "k") == "953c7e4c-01ad-5da7-984f-5cf5f0ae4d49"
