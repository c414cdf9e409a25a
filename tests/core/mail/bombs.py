"""Mails that are made to be dear: of each kind one of a chosen size."""

from collections.abc import Callable, Mapping

HEADER = b"From: a@b.example\r\nSubject: s\r\n"


def make_bombs() -> Mapping[str, Callable[[int], bytes]]:
    """Give, for each kind, what makes a mail of about so many bytes."""
    return {
        "parts": lambda size: mixed() + b"--b\r\n\r\nx\r\n" * (size // 10),
        "empty parts": lambda size: mixed() + b"--b\r\n" * (size // 5),
        "almost boundaries": lambda size: mixed() + b"--bx\r\n" * (size // 6),
        "depth": lambda size: nested(1_000) + b"--x\r\n\r\n" * (size // 7),
        "depth just allowed": lambda size: nested(19) + b"--x\r\n\r\n" * (size // 7),
        "header line": lambda size: HEADER + b"X: " + b"a" * size + b"\r\n\r\nhi",
        "header lines": lambda size: HEADER + b"X: a\r\n" * (size // 6) + b"\r\nhi",
        "header folds": lambda size: HEADER + b"X: a\r\n" + b" b\r\n" * (size // 4) + b"\r\nhi",
        "header junk": lambda size: b"junk\r\n" * (size // 6) + b"From: a\r\n\r\nx",
        "no header": lambda size: b"x" * size,
        "newlines": lambda size: b"\n" * size,
        "base64": lambda size: encoded("base64") + b"QUFB" * (size // 4),
        "base64 padding": lambda size: encoded("base64") + b"QQ==" * (size // 4),
        "base64 equals": lambda size: encoded("base64") + b"QQ" + b"=" * size + b"QQ",
        "base64 junk": lambda size: encoded("base64") + b"*QUFBQUF" * (size // 8),
        "quoted-printable": lambda size: encoded("quoted-printable") + b"=41=" * (size // 4),
        "quoted spaces": lambda size: encoded("quoted-printable") + b"=" + b" " * size,
        "uuencode": lambda size: (
            encoded("x-uuencode") + b"begin 644 a\r\n" + b"!!!\r\n" * (size // 5)
        ),
        "text": lambda size: HEADER + b"\r\n" + b"\xe9 " * (size // 2),
        "html tags": lambda size: typed("text/html") + b"<p>" * (size // 3),
        "html attributes": lambda size: typed("text/html") + b"<a " + b"a=b " * (size // 4),
        "html depth": lambda size: typed("text/html") + b"<div><b>" * (size // 8),
        "html comments": lambda size: typed("text/html") + b"<!--" * (size // 4),
        "html parts": html_parts,
        "charsets": lambda size: many_parts(b"X: y", b"\xe9\xe8\xfc" * 4_000, size),
        "attributions": lambda size: HEADER + b"\r\n" + b"On 1 Jan 2026 x wrote:\n" * (size // 23),
        "old headers": lambda size: HEADER + b"\r\n" + b"From: a\n" * (size // 8),
        "colons": lambda size: HEADER + b"\r\n" + b"x:\n" * (size // 3),
        "underlines": lambda size: HEADER + b"\r\n" + (b"_" * 30 + b"\n") * (size // 31),
        "encoded words": lambda size: field("Subject", b"=?utf-8?q?=c3=a9?= " * (size // 19)),
        "open words": lambda size: field("Subject", b"=?a?q?" * (size // 6)),
        "addresses": lambda size: field("To", b"a@b.cc," * (size // 7)),
        "commas": lambda size: field("To", b"a," * (size // 2)),
        "brackets": lambda size: field("To", b"(" * (size // 2) + b"<" * (size // 2)),
        "open bracket": lambda size: field("To", b"<" + b"a," * (size // 2)),
        "quotes": lambda size: field("To", b'"\\' * (size // 2)),
        "references": lambda size: field("References", b"<a@b>" * (size // 5)),
        "pieces": lambda size: field(
            "Content-Type", b"text/plain" + b"; n*1*=%41; n*2*=%42" * (size // 20)
        ),
        "semicolons": lambda size: many_parts(
            b"Content-Type: text/plain" + b";" * 16_000, b"x", size
        ),
        "attribution words": lambda size: (
            HEADER + b"\r\n" + (b"schrieb " * 48 + b":\n> x\n\n") * (size // 391)
        ),
        "open quotes": lambda size: field("Content-Type", b"text/plain" + b';a="' * (size // 4)),
        "part headers": lambda size: many_parts(b"a:b\r\n" * 13_000, b"x", size),
        "report": lambda size: (
            typed("message/delivery-status") + b"Action: failed\r\n\r\n" * (size // 18)
        ),
        "qmail": lambda size: (
            HEADER + b"\r\nHi. This is the qmail-send at x.\n" + b"<a@b>:\nx\n" * (size // 9)
        ),
        "exim": lambda size: field("X-Failed-Recipients", b"a@b.cc, " * (size // 8)) + b"a@b " * 99,
        "calendar": lambda size: (
            typed("text/calendar") + b"BEGIN:VCALENDAR\n" + b"A;B\n" * (size // 4)
        ),
        "flowed": lambda size: typed("text/plain; format=flowed") + b"> a \n" * (size // 5),
        "escapes": lambda size: typed("text/plain; charset=iso-2022-jp") + b"\x1b$B" * (size // 3),
        "signatures": lambda size: HEADER + b"\r\n" + b"--\n" * (size // 3) + b"\n" * 20_000,
        "pgp": lambda size: (
            HEADER + b"\r\n-----BEGIN PGP SIGNED MESSAGE-----\n\n" + b"- -\n" * (size // 4)
            + b"-----BEGIN PGP SIGNATURE-----"
        ),
    }  # fmt: skip


def mixed() -> bytes:
    return typed("multipart/mixed; boundary=b")


def typed(type_: str) -> bytes:
    return HEADER + b"Content-Type: " + type_.encode() + b"\r\n\r\n"


def encoded(encoding: str) -> bytes:
    return HEADER + b"Content-Transfer-Encoding: " + encoding.encode() + b"\r\n\r\n"


def field(name: str, value: bytes) -> bytes:
    return b"From: a@b.example\r\n" + name.encode() + b": " + value + b"\r\n\r\nx"


def nested(depth: int) -> bytes:
    header = b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n"
    inner = b"".join(b"--b%d\r\n" % n + header % (n + 1) for n in range(depth))
    return HEADER + header % 0 + inner


def many_parts(header: bytes, content: bytes, size: int) -> bytes:
    part = b"--b\r\n" + header + b"\r\n\r\n" + content + b"\r\n"
    return mixed() + part * min(499, size // len(part))


def html_parts(size: int) -> bytes:
    return many_parts(b"Content-Type: text/html", b"<p style='color:red'>x</p>" * 4_000, size)
