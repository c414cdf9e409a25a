import pytest

from mailonce.core.mail.digest import digest
from mailonce.core.mail.incoming import AddressField, FieldAttachment, FieldsContent
from tests.core.mail.mails import ENVELOPE, HEADER, make_mail, make_multipart, read

PARTS = [
    ("Content-Type: text/plain; charset=utf-8", "Grüße  \nund mehr"),
    ("Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64", "JVBERi0x"),
]
BASE = make_multipart("mixed", PARTS)


@pytest.mark.parametrize(
    "copy",
    [
        BASE.replace(b"\r\n", b"\n"),
        b"Received: from a by b; Mon, 5 Jan 2026\r\n" + BASE,
        b"Return-Path: <bounce+1@example.com>\r\nDKIM-Signature: v=1; b=abc\r\n" + BASE,
        BASE.replace(b"Subject: Hello", b"X-Spam: no\r\nSubject:  Hello "),
        make_multipart("mixed", PARTS, boundary="other"),
        BASE.replace(
            "charset=utf-8\r\n\r\nGrüße  \r\nund mehr".encode(),
            b"charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
            b"Gr=FC=DFe\r\nund =\r\nmehr",
        ),
        BASE.replace(b"JVBERi0x", b"JVBE\r\nRi0x\r\n"),
        BASE.replace(b"Subject: Hello", b"Subject: =?utf-8?q?Hello?="),
        BASE.replace(b"To: Bob <bob@in.example.net>", b"To: bob@IN.example.net"),
    ],
)
def test_carrying_a_mail_does_not_change_it(copy: bytes) -> None:
    assert copy != BASE
    assert read(copy).fingerprint == read(BASE).fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"<one@example.com>", b"<two@example.com>"),
        (b"Subject: Hello", b"Subject: Hello!"),
        (b"Ann <ann@example.com>", b"Ann <eve@example.com>"),
        (b"bob@in.example.net", b"bob2@in.example.net"),
        (b"10:00:00", b"10:00:01"),
        ("Grüße".encode(), "Grüsse".encode()),
        (b"JVBERi0x", b"JVBERi0y"),
        (b"text/plain", b"text/html"),
        (b"application/pdf", b"image/png"),
    ],
)
def test_other_content_is_another_mail(old: bytes, new: bytes) -> None:
    assert old in BASE
    assert read(BASE.replace(old, new)).fingerprint != read(BASE).fingerprint


def test_the_recipe_of_a_fingerprint_does_not_change() -> None:
    mail = make_mail("Hi\n", header=HEADER)
    fields = FieldsContent(from_=(AddressField("ann@example.com"),), subject="Hello", text="Hi")

    assert read(mail).fingerprint.hex() == MIME_FINGERPRINT
    assert digest(fields, ENVELOPE).fingerprint.hex() == FIELDS_FINGERPRINT


def test_a_text_that_a_provider_made_does_not_count() -> None:
    one = FieldsContent(html="<p>Hi", text="Hi", is_text_derived=True)
    two = FieldsContent(html="<p>Hi", text="Hi ", is_text_derived=True)
    three = FieldsContent(html="<p>Hi", text="Ho")
    four = FieldsContent(html="<p>Hi", text="Hu")

    prints = [digest(content, ENVELOPE).fingerprint for content in (one, two, three, four)]

    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_an_attachment_counts_in_fields_too() -> None:
    prints = {
        digest(
            FieldsContent(
                attachments=(FieldAttachment(name="a", type="text/plain", content=content),)
            ),
            ENVELOPE,
        ).fingerprint
        for content in (b"a", b"b")
    }

    assert len(prints) == 2


# A fingerprint is an identity: when these change, every mail of the last days would look new.
MIME_FINGERPRINT = "5137e58af337010d148b6b746452d34f5c6077eda4ba677d325c40e149bf907c"
FIELDS_FINGERPRINT = "0a43f8121cf1137f1a53e73839f653face0e7bdf155e5c846bb0f246ac09127f"
