import pytest

from mailonce.core.mail.mime.file_type import detect_type, is_misleading


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        (b"%PDF-1.7", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"RIFF....WEBPVP8", "image/webp"),
        (b"PK\x03\x04....", "application/zip"),
        (b"MZ\x90\x00", "application/x-msdownload"),
        (b"  <!DOCTYPE html><p>", "text/html"),
        (b"hello", None),
        (b"", None),
    ],
)
def test_the_first_bytes_tell_the_type(content: bytes, type_: str | None) -> None:
    assert detect_type(content) == type_


@pytest.mark.parametrize(
    ("declared", "content", "misleads"),
    [
        ("image/png", b"MZ\x90", True),
        ("application/pdf", b"MZ\x90", True),
        ("application/octet-stream", b"MZ\x90", False),
        ("image/png", b"<html>", True),
        ("image/png", b"\xff\xd8\xff", False),
        ("application/vnd.openxmlformats-officedocument", b"PK\x03\x04", False),
        ("text/plain", b"hello", False),
    ],
)
def test_a_program_under_a_harmless_type_misleads(
    declared: str,
    content: bytes,
    misleads: bool,  # noqa: FBT001
) -> None:
    assert is_misleading(declared, detect_type(content)) is misleads
