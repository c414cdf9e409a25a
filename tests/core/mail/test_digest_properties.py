"""What holds for every mail: it can be read, within bounds, and copies of it are known."""

import base64
import quopri
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.digest import MailDigest, digest
from mailonce.core.mail.incoming import AddressField, FieldAttachment, FieldsContent, MimeContent
from mailonce.core.mail.message import cleaned_text, document, message_id_of
from mailonce.core.text import UNSTORABLE
from tests.core.mail.mails import ENVELOPE, make_mail, read
from tests.core.mail.test_golden import NAMES, read_golden

MAILS = {name: read_golden(name)[0] for name in NAMES}
LIMITS = DigestLimits(
    parts_max=20, depth_max=5, text_chars_max=2_000, html_chars_max=2_000, addresses_max=20
)
few = settings(
    max_examples=6 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
many = settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))
# Pieces that mean something to the reader of a mail.
TOKENS = [
    b"\r\n", b"\n\n", b"--b1", b"--b1--\r\n", b"=?utf-8?q?", b"?=", b"Content-Type: ",
    b"multipart/mixed; boundary=b1\r\n\r\n", b"Content-Transfer-Encoding: base64\r\n", b"charset=",
    b"utf-16", b"\x00", b"\xff\xfe", b"<", b">", b'"', b"(", b"@", b";", b"*0*=", b"''", b"=",
    b"\x1b$B",
]  # fmt: skip


@st.composite
def mutated_mails(draw: st.DrawFn) -> bytes:
    raw = MAILS[draw(st.sampled_from(NAMES))]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        end = draw(st.integers(at, min(len(raw), at + 200)))
        match draw(st.integers(0, 5)):
            case 0:
                raw = raw[:at] + draw(st.binary(min_size=1, max_size=4)) + raw[at + 1 :]
            case 1:
                raw = raw[:at]
            case 2:
                raw = raw[:end] + raw[at:end] * draw(st.integers(1, 5)) + raw[end:]
            case 3:
                raw = raw[:at] + raw[end:]
            case 4:
                raw = raw[:at] + draw(st.sampled_from(TOKENS)) + raw[at:]
            case _:
                other = MAILS[draw(st.sampled_from(NAMES))]
                raw = raw[:at] + other[draw(st.integers(0, len(other))) :]
    return raw


def check_mail(raw: bytes) -> None:
    one, again = (
        digest(MimeContent(raw), ENVELOPE, limits=LIMITS, trusted_servers=("mx.example.net",))
        for _ in range(2)
    )

    assert one == again
    assert len(one.attachments) <= LIMITS.parts_max
    assert len(one.text or "") <= LIMITS.text_chars_max
    assert len(one.html or "") <= LIMITS.html_chars_max
    assert sum(len(part.content) for part in one.attachments) <= 2 * len(raw)
    assert len(one.to) <= LIMITS.addresses_max
    shown = shown_of(one)
    assert len(orjson.dumps(shown)) < 20_000 + 20 * len(raw)
    assert UNSTORABLE.search(str(shown)) is None
    assert len(cleaned_text(shown)) <= len(one.html or one.text or "")


def shown_of(one: MailDigest) -> dict[str, Any]:
    return document(
        one,
        id=message_id_of("default", "inb_1", one.fingerprint),
        inbox="inb_1",
        address="bob@in.example.net",
        seq=1,
        received_ms=0,
        envelope=ENVELOPE,
    )


@few
@given(mutated_mails())
def test_a_broken_mail_is_read_within_bounds(raw: bytes) -> None:
    check_mail(raw)


@pytest.mark.long
@many
@given(mutated_mails())
def test_every_broken_mail_is_read_within_bounds(raw: bytes) -> None:
    check_mail(raw)


@few
@given(st.binary(max_size=300))
def test_bytes_that_are_no_mail_are_read(raw: bytes) -> None:
    check_mail(raw)


fields_contents = st.builds(
    FieldsContent,
    headers=st.lists(st.tuples(st.text(max_size=20), st.text(max_size=50)), max_size=5).map(tuple),
    message_id=st.none() | st.text(max_size=20),
    from_=st.lists(
        st.builds(AddressField, st.text(max_size=20), st.none() | st.text(max_size=20)), max_size=2
    ).map(tuple),
    subject=st.none() | st.text(max_size=50),
    date=st.none() | st.text(max_size=30),
    text=st.none() | st.text(max_size=100),
    is_text_derived=st.booleans(),
    html=st.none() | st.text(max_size=100),
    attachments=st.lists(
        st.builds(
            FieldAttachment,
            name=st.none() | st.text(max_size=20),
            type=st.text(max_size=20),
            content=st.binary(max_size=20),
            content_id=st.none() | st.text(max_size=20),
        ),
        max_size=2,
    ).map(tuple),
)  # fmt: skip


@few
@given(fields_contents)
def test_fields_of_any_content_are_read(content: FieldsContent) -> None:
    one = digest(content, ENVELOPE)
    stored = msgspec.json.decode(msgspec.json.encode(content), type=FieldsContent)

    assert one == digest(stored, ENVELOPE)
    assert UNSTORABLE.search(str(shown_of(one))) is None


def carried(raw: bytes) -> bytes:
    """Add what relays add."""
    trace = (
        "Return-Path: <bounce+7@example.com>\r\nDelivered-To: box@in.example.net\r\n"
        "Received: from a.example (a.example [192.0.2.1])\r\n\tby b.example; Mon, 5 Jan 2026\r\n"
        "Authentication-Results: b.example; spf=pass\r\nX-Spam-Score: 0.1\r\n"
        "ARC-Seal: i=1; a=rsa-sha256; b=abc\r\nDKIM-Signature: v=1; d=example.com;\r\n b=abc\r\n"
        "List-Unsubscribe: <https://example.com>\r\n"
    )
    return trace.encode() + raw


def test_carrying_changes_no_fingerprint(subtests: pytest.Subtests) -> None:
    # Before these, a relay would have written a blank line or its own line ends.
    odd = ("not-a-mail-", "mime-empty-file", "header-of-a-mailbox-file", "line-ends-cr")
    for name, raw in MAILS.items():
        if not name.startswith(odd):
            with subtests.test(name):
                assert read(carried(raw)).fingerprint == read(raw).fingerprint


Encode = Callable[[str], tuple[str, bytes]]
TEXT, AS = "Content-Type: text/plain; charset", "\nContent-Transfer-Encoding: "
TEXT_FORMS: list[Encode] = [
    lambda text: (f"{TEXT}=utf-8{AS}8bit", text.encode()),
    lambda text: (
        f"{TEXT}=UTF-8{AS}Base64",
        base64.encodebytes(text.replace("\n", "\r\n").encode()),
    ),
    lambda text: (f'{TEXT}="utf-8"{AS}quoted-printable', quopri.encodestring(text.encode())),
    lambda text: (f"{TEXT}=utf-16{AS}base64", base64.encodebytes(text.encode("utf-16"))),
]
letters = st.characters(codec="utf-8", exclude_categories=["C", "Z"])
words = st.text(letters | st.sampled_from(" \n"), max_size=60)


def written(text: str, file: bytes, form: Encode, boundary: str) -> bytes:
    header, content = form(text)
    encoded = base64.encodebytes(file).replace(b"\n", b"\r\n")
    mark = boundary.encode()
    body = (
        b"--" + mark + b"\r\n" + header.replace("\n", "\r\n").encode() + b"\r\n\r\n" + content
        + b"\r\n--" + mark + b"\r\nContent-Type: application/pdf; name=a.pdf\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + encoded + b"\r\n--" + mark + b"--\r\n"
    )  # fmt: skip
    return make_mail("", f'Content-Type: multipart/mixed; boundary="{boundary}"') + body


@few
@given(words, st.binary(max_size=40), st.permutations(range(4)))
@example("trailing \nspaces  \n", b"", [0, 1, 2, 3])
def test_boundaries_and_encodings_change_no_fingerprint(
    text: str, file: bytes, order: list[int]
) -> None:
    one, other = (TEXT_FORMS[number] for number in order[:2])

    first = read(written(text, file, one, "frontier"))
    second = read(written(text, file, other, "=_other_="))

    assert first.fingerprint == second.fingerprint
    assert first.attachments[0].content == file


@few
@given(words, words, st.binary(max_size=40), st.binary(max_size=40))
def test_other_content_changes_the_fingerprint(
    text: str, other_text: str, file: bytes, other_file: bytes
) -> None:
    def normal(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.split("\n")).rstrip()

    first = read(written(text, file, TEXT_FORMS[0], "frontier"))
    second = read(written(other_text, other_file, TEXT_FORMS[0], "frontier"))

    is_same = normal(text) == normal(other_text) and file == other_file
    assert (first.fingerprint == second.fingerprint) is is_same
