"""Fuzz the reading of mail, guided by coverage; by hand, before a larger change of `core/mail`.

    .venv/bin/pip install atheris
    .venv/bin/python -m tests.core.mail.fuzz_digest CORPUS -max_total_time=600

CORPUS is a folder of your own, which is filled with the golden mails and with whatever was found to
reach new code. The first mail that raises, takes longer than a second, makes what JSON or the
databases cannot hold, or has two readings, ends it; libFuzzer then writes that mail to a file.
"""

import sys
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mailonce.core.mail"]):
    from mailonce.core.mail.digest import digest
    from mailonce.core.mail.incoming import MailEnvelope, MimeContent
    from mailonce.core.mail.message import document, message_id_of
    from mailonce.core.mail.reader_view import reader_view

import orjson

GOLDEN = Path(__file__).parent / "golden"
ENVELOPE = MailEnvelope(mail_from="", recipients=("a@in.test",), origin="smtp")
SECONDS_MAX = 1.0
MAIL_BYTES_MAX = 16_384


def read_one(raw: bytes) -> None:
    """Read a mail twice, and write what is shown of it."""
    began_s = time.process_time()
    first = digest(MimeContent(raw), ENVELOPE, trusted_servers=("mx.test",))
    shown = document(
        first,
        id=message_id_of("default", "inb_1", first.fingerprint),
        inbox="inb_1",
        address="a@in.test",
        seq=1,
        received_ms=1_767_225_600_000,
        envelope=ENVELOPE,
    )
    text = orjson.dumps(shown) + orjson.dumps(reader_view(shown))
    took_s = time.process_time() - began_s
    assert took_s < SECONDS_MAX, f"reading it took {took_s:.1f} s"
    assert b"\\u0000" not in text, "no database can hold a NUL"
    assert digest(MimeContent(raw), ENVELOPE).fingerprint == first.fingerprint


def main() -> None:
    corpus = Path(next((one for one in sys.argv[1:] if not one.startswith("-")), "corpus"))
    corpus.mkdir(parents=True, exist_ok=True)
    for mail in GOLDEN.glob("*.eml"):
        raw = mail.read_bytes()
        if len(raw) <= MAIL_BYTES_MAX:
            (corpus / mail.name).write_bytes(raw)
    atheris.Setup([*sys.argv, f"-max_len={MAIL_BYTES_MAX}", "-timeout=10"], read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
