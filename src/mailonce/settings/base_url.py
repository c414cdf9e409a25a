"""What the links to this server may begin with."""

from urllib.parse import urlsplit


def is_base_url(text: str) -> bool:
    """Say whether links may begin with this text."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    has_more = parts.query or parts.fragment or "@" in parts.netloc or set("?#") & set(text)
    is_plain = text.isascii() and text.isprintable() and " " not in text
    return parts.scheme in {"http", "https"} and bool(host) and is_plain and not has_more
