import base64

from mailonce.core.mail.protection import of_text
from tests.core.mail.mails import make_mail, make_multipart, read
from tests.core.mail.test_signed_data import make_signed

CMS = "Content-Type: application/pkcs7-mime; smime-type={}; name=smime.p7m"
BASE64 = "Content-Transfer-Encoding: base64"


def test_content_inside_a_signature_is_shown() -> None:
    inner = b"Content-Type: text/plain\r\n\r\nsigned words"
    raw = make_mail(base64.encodebytes(make_signed(inner)), CMS.format("signed-data"), BASE64)

    digest = read(raw)

    assert (digest.text, digest.signed, digest.encrypted) == ("signed words", "smime", None)


def test_signatures_in_signatures_end() -> None:
    inner = b"Content-Type: text/plain\r\n\r\nx"
    for _ in range(10):
        header = f"{CMS.format('signed-data')}\r\n{BASE64}\r\n\r\n".encode()
        inner = header + base64.encodebytes(make_signed(inner))

    assert read(make_mail(b"", header="")[2:] + inner).signed == "smime"


def test_a_signed_multipart_shows_its_content() -> None:
    raw = make_multipart(
        "signed; protocol=application/pgp-signature",
        [
            ("Content-Type: text/plain", "words"),
            ("Content-Type: application/pgp-signature; name=signature.asc", "-----BEGIN"),
        ],
    )

    digest = read(raw)

    assert (digest.text, digest.signed) == ("words", "pgp")


def test_encrypted_mail_is_named() -> None:
    raw = make_multipart(
        "encrypted; protocol=application/pgp-encrypted",
        [
            ("Content-Type: application/pgp-encrypted", "Version: 1"),
            (
                "Content-Type: application/octet-stream; name=encrypted.asc",
                "-----BEGIN PGP MESSAGE",
            ),
        ],
    )

    digest = read(raw)

    assert (digest.text, digest.encrypted) == (None, "pgp")


def test_armour_around_a_text_is_taken_off() -> None:
    text = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nwords\n- -- \nAnn\n"
        "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n"
    )

    assert of_text(text)[0] == "words\n-- \nAnn\n"
    assert of_text(text)[1].signed == "pgp"
    assert of_text("-----BEGIN PGP MESSAGE-----\n\nabc\n")[1].encrypted == "pgp"
    assert of_text(f"I quote: {text}")[1].signed is None
