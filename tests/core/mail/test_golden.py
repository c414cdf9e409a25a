"""Mails as they come, and what they must be read as: `golden/NAME.eml` and `golden/NAME.json`.

The expected side is written by hand. Each field that it names must match; `null` lists fields that
must be null or empty; `problems` is always complete.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mailonce.core.mail.digest import digest
from mailonce.core.mail.incoming import MailEnvelope, MimeContent
from mailonce.core.mail.message import cleaned_text, document, message_id_of, message_schema

FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.eml"))
VALIDATOR = Draft202012Validator(message_schema())


def read_golden(name: str) -> tuple[bytes, dict[str, Any]]:
    raw = (FOLDER / f"{name}.eml").read_bytes()
    expected: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return raw, expected


def document_of(raw: bytes, expected: dict[str, Any]) -> dict[str, Any]:
    envelope = MailEnvelope(
        mail_from=expected.get("mail_from", "sender@example.com"),
        recipients=("box@in.example.net",),
        origin="smtp",
    )
    one = digest(MimeContent(raw), envelope, trusted_servers=expected.get("trusted", ()))
    return document(
        one,
        id=message_id_of("default", "inb_1", one.fingerprint),
        inbox="inb_1",
        address="box@in.example.net",
        seq=1,
        received_ms=1_767_607_200_000,
        envelope=envelope,
    )


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Say where a document is not what was expected; of an object, only named fields count."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, value in expected.items():
            if name not in actual:
                yield f"{path}.{name} is missing"
            else:
                yield from differences(value, actual[name], f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif expected != actual:
        yield f"{path}: expected {expected!r}, got {actual!r}"


def test_every_mail_has_its_expectation_and_there_are_enough() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == NAMES
    assert len(NAMES) >= 120


def test_a_golden_mail_is_read_as_expected(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        raw, expected = read_golden(name)
        with subtests.test(name):
            shown = document_of(raw, expected)

            assert list(differences(expected["message"], shown)) == []
            assert sorted(shown["problems"]) == sorted(expected["problems"])
            assert [field for field in expected.get("null", ()) if shown[field]] == []
            if "cleaned_text" in expected:
                assert cleaned_text(shown) == expected["cleaned_text"]
            assert list(VALIDATOR.iter_errors(json.loads(json.dumps(shown)))) == []
