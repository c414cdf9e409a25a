"""Tell the type of content from its first bytes, whatever its sender calls it."""

_ZIP = "application/zip"
_EXECUTABLE = "application/x-msdownload"
_OLE = "application/x-ole-storage"
# Where one sign is the beginning of another, the longer comes first.
_SIGNS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"%PDF-", "application/pdf"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"PK\x03\x04", _ZIP),
    (0, b"PK\x05\x06", _ZIP),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"(\xb5/\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf'\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"MZ", _EXECUTABLE),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"\xcf\xfa\xed\xfe", "application/x-mach-binary"),
    (0, b"#!", "text/x-script"),
    (4, b"ftyp", "video/mp4"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "application/ogg"),
    (0, b"BEGIN:VCALENDAR", "text/calendar"),
    (0, b"BEGIN:VCARD", "text/vcard"),
    (0, b"<?xml", "text/xml"),
    (0, b"-----BEGIN PGP", "application/pgp"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_RUNS = frozenset(
    {_EXECUTABLE, "application/x-executable", "application/x-mach-binary", "text/x-script"}
)
# Declared types under which a program does not surprise.
_PLAIN = ("application/octet-stream", "application/x-", "application/vnd.microsoft", "text/x-")
_PICTURES = ("image/", "audio/", "video/")


def detect_type(content: bytes) -> str | None:
    """Give the type that the first bytes show; None where they show none."""
    head = content[:64]
    for place, sign, type_ in _SIGNS:
        if head.startswith(sign, place):
            return type_
    start = head.lstrip()[:15].lower()
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else None


def is_misleading(declared: str, detected: str | None) -> bool:
    """Say whether content is a program or a page, though its sender calls it something harmless."""
    if detected is None or declared == detected:
        return False
    if detected in _RUNS:
        return not declared.startswith(_PLAIN)
    return declared.startswith(_PICTURES) and not detected.startswith(
        (*_PICTURES, "application/ogg")
    )
