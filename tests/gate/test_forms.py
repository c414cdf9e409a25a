"""Copies of a form with files: the boundary between its parts is no content."""

from typing import Any

import httpx
import pytest

from mailonce.gate import Gate, Outcome, Passage, Policy, Request, Response
from mailonce.gate.rules.decision import Claim
from mailonce.gate.rules.form import PARTS_MAX
from tests.gate.gates import DONE, store_of
from tests.gate.places import ORDER, Place

FILE = ("mail.eml", b"Subject: hello\r\n\r\n--text--\r\n", "message/rfc822")


def upload(
    boundary: str = "a1", *, quoted: bool = False, file: Any = FILE, **fields: str
) -> Request:
    """Write a form as httpx does."""
    written = f'"{boundary}"' if quoted else boundary
    made = httpx.Request(
        "POST",
        "http://app.example/hooks",
        data=fields or {"to": "ann"},
        files={"mail": file},
        headers={"Content-Type": f"multipart/form-data; boundary={written}"},
    )
    return request(made.headers["content-type"], made.read())


def request(content_type: str, body: bytes) -> Request:
    return Request(headers=(("Idempotency-Key", "k-1"), ("Content-Type", content_type)), body=body)


def fingerprint(asked: Request, **choices: Any) -> str:
    claim = Policy(**choices).claim_of(asked)
    assert isinstance(claim, Claim)
    return claim.fingerprint


def test_a_repeated_upload_is_a_copy_and_another_one_names_its_fields(place: Place) -> None:
    def work(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        return DONE

    gate = Gate(store_of(place))

    answers = [
        gate.run(asked, work)
        for asked in (
            upload("a1"),
            upload("another-boundary"),
            upload("b2", quoted=True),
            upload("c3", to="bob"),
            upload("d4", file=("mail.eml", b"Subject: other", "message/rfc822")),
            upload("e5", file=("other.eml", *FILE[1:])),
        )
    ]

    assert [answer.outcome for answer in answers] == [
        Outcome.FIRST, *[Outcome.REPLAYED] * 2, *[Outcome.CONFLICT] * 3
    ]  # fmt: skip
    named = [b'"fields":["to"]', b'"fields":["mail"]', b'"fields":["mail"]']
    assert all(
        name in answer.response.body for name, answer in zip(named, answers[3:], strict=True)
    )
    assert place.orders() == 1


PART = b'\r\nContent-Disposition: form-data; name="n"\r\n\r\nvalue'
FORM = "multipart/form-data; boundary="


def form(boundary: bytes, *parts: bytes, end: bytes = b"--\r\n") -> bytes:
    return b"".join(b"--" + boundary + part + b"\r\n" for part in parts) + b"--" + boundary + end


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", form(b"X", PART)),
        (f"{FORM}X; boundary=Y", form(b"X", PART)),
        (f"{FORM}X", form(b"Z", PART)),
        (f"{FORM}X", b"preamble\r\n" + form(b"X", PART)),
        (f"{FORM}X", form(b"X", PART, end=b"--\r\nepilogue")),
        (f"{FORM}X", form(b"X", PART, end=b"")),
        (f"{FORM}X", form(b"X", PART + b"\n--X")),
        (f"{FORM}X", form(b"X", b"\r\nno end of its headers")),
        (f"{FORM}X", form(b"X", *[PART] * (PARTS_MAX + 1))),
    ],
    ids=["other type", "two boundaries", "other boundary", "preamble", "epilogue", "cut off",
         "boundary inside", "no headers", "too many parts"],
)  # fmt: skip
def test_what_is_not_plainly_a_form_is_compared_as_bytes(content_type: str, body: bytes) -> None:
    asked = request(content_type, body)

    assert fingerprint(asked) == fingerprint(asked, fingerprint="raw")


def test_forms_with_equal_parts_in_another_order_or_number_are_other_content() -> None:
    one, two = PART, PART.replace(b"value", b"other")
    forms = [(one, two), (two, one), (one,), (one, one), (one, two, two), ()]
    prints = [fingerprint(request(f"{FORM}X", form(b"X", *parts))) for parts in forms]
    prints.append(fingerprint(request(f"{FORM}X; charset=utf-8", form(b"X", one, two))))

    assert len(set(prints)) == len(prints)
    assert prints[0] == fingerprint(request(f"{FORM}longer", form(b"longer", one, two)))
    assert prints[0] != fingerprint(request(f"{FORM}X", form(b"X", one, two)), fingerprint="raw")
