"""Answers by their status alone: what is certain, and what is not."""

import pytest

from mailonce.core.sends import answers
from mailonce.core.sends.sending import (
    Fault,
    Found,
    NotFound,
    NotSent,
    ProviderAnswer,
    TryAgain,
    Unknown,
)

NOT_SENT = (400, 413, 415, 418, 422)
BLAMES_SENDER = (301, 307, 308, 401, 402, 403, 404, 405, 410)
UNCLEAR = (100, 101, 300, 302, 303, 304, 408, 409, 425, 500, 501, 502, 503, 504, 520, 599)


def test_a_status_says_no_more_than_it_does(subtests: pytest.Subtests) -> None:
    for status in (*NOT_SENT, *BLAMES_SENDER, *UNCLEAR, 429):
        with subtests.test(str(status)):
            outcome = answers.refusal(ProviderAnswer(status=status))

            match outcome:
                case NotSent(fault=Fault.SENDER):
                    assert status in BLAMES_SENDER
                case NotSent():
                    assert status in NOT_SENT
                case TryAgain():
                    assert status == 429
                case Unknown():
                    assert status in UNCLEAR
                case _:
                    pytest.fail("nothing but a 2xx is accepted")


def test_a_wait_is_read_in_seconds_or_as_a_date() -> None:
    for text, wait_ms in (("7", 7_000), ("Thu, 01 Jan 1970 00:01:00 GMT", 50_000), ("x", None)):
        answer = ProviderAnswer(status=429, headers={"retry-after": text}, received_ms=10_000)

        assert answers.refusal(answer) == TryAgain(reason="answered 429", retry_after_ms=wait_ms)


def test_a_reason_has_one_line_and_no_address() -> None:
    reason = answers.reason_of(
        422, "Inactive:\r\n <ann@example.net>,\tbob@example.org\x00 " + "x" * 999
    )

    assert reason.startswith("answered 422: Inactive: <…@…>, …@… xxx")
    assert "example" not in reason
    assert reason.isprintable()
    assert len(reason) < 330


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"message": "no"}, "no"),
        ({"name": "Invalid_Key", "code": -1, "message": "no"}, "Invalid_Key -1 no"),
        ({"errors": [{"message": "a", "code": "1"}, "b"]}, "1 a; b"),
        ([{"ErrorCode": "x", "ErrorMessage": "y"}], "x y"),
        ({"error": {"message": "deep"}}, "deep"),
        (None, ""),
        (7, ""),
    ],
)
def test_the_words_of_an_error_are_found(body: object, text: str) -> None:
    assert answers.says(body) == text


def test_a_lookup_proves_by_presence_alone() -> None:
    def read(status: int, body: bytes, *, is_whole: bool = True) -> object:
        return answers.read_lookup(
            ProviderAnswer(status=status, body=body, is_whole=is_whole),
            "data",
            is_ours=lambda item: item.get("us") is True,
            message_id=lambda item: item.get("id"),
        )

    hit = b'{"data": [7, {"id": "other"}, {"us": true, "id": "m1"}]}'
    assert read(200, hit) == Found(message_id="m1", evidence="found by a lookup")
    assert read(200, b'{"data": []}') == NotFound()
    assert read(404, b"") == NotFound()
    for status, body in ((200, b"{}"), (200, b"<html>"), (500, hit), (403, b""), (302, hit)):
        assert isinstance(read(status, body), Unknown)
    assert isinstance(read(200, hit, is_whole=False), Unknown)
