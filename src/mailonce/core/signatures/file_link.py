"""Links to attachments that need no key: they are signed, and expire."""

import hmac
from hashlib import sha256
from urllib.parse import urlencode

from msgspec import Struct


class FileLink(Struct, frozen=True, gc=False):
    """Which attachment of which message a link opens, and until when (unix seconds)."""

    workspace: str
    message: str
    attachment: str
    expires_s: int


class FileLinks:
    """Signs links with the first master key, and believes those of any."""

    def __init__(self, master_keys: list[str], *, base_url: str, lifetime_s: int) -> None:
        assert master_keys, "links are signed with a master key"
        self._keys = [sha256(b"link" + key.encode()).digest() for key in master_keys]
        self._base_url = base_url.rstrip("/")
        self._lifetime_s = lifetime_s

    def url(self, workspace: str, message: str, attachment: str, *, now_ms: int) -> str:
        """Write a link that is good from now on for its lifetime."""
        link = FileLink(workspace, message, attachment, now_ms // 1000 + self._lifetime_s)
        query = urlencode(
            {
                "workspace": workspace,
                "expires": link.expires_s,
                "signature": _signature(self._keys[0], link),
            }
        )
        return f"{self._base_url}/files/{message}/{attachment}?{query}"

    def is_good(self, link: FileLink, signature: str, *, now_ms: int) -> bool:
        """Say whether a link is ours, and has not expired."""
        given = signature.encode("utf-8", "replace")
        is_ours = any(
            hmac.compare_digest(_signature(key, link).encode(), given) for key in self._keys
        )
        return is_ours and now_ms < link.expires_s * 1000


def _signature(key: bytes, link: FileLink) -> str:
    fields = (link.workspace, link.message, link.attachment, str(link.expires_s))
    # No two links are written alike: each field is preceded by its length.
    text = "".join(f"{len(one)}:{one}" for one in fields)
    return hmac.digest(key, text.encode(), sha256).hex()
