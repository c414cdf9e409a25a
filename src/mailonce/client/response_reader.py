"""Read an HTTP/1.1 response as its bytes come, over whatever connection."""

import re
from types import MappingProxyType

from mailonce.client.steps import ApiAnswer, LostConnectionError

HEAD_BYTES_MAX = 64 << 10
LINE_BYTES_MAX = 1 << 10
BODY_BYTES_MAX = 256 << 20
_BODILESS = frozenset({204, 304})
# `int` would also take signs and underscores: a chunk of less than nothing would never end.
_LENGTH = re.compile(rb"[0-9A-Fa-f]{1,16}")


class ResponseReader:
    """One response: fed with bytes, it gives its head and then its body.

    Raises: LostConnectionError where the bytes are no response, or end too early.
    """

    def __init__(self) -> None:
        self._raw = bytearray()
        self._body = bytearray()
        self._body_bytes = 0
        self.head: ApiAnswer | None = None
        self.is_complete = False
        # Bytes that are still to come of the body, or of the chunk; None: until the end.
        self._left: int | None = 0
        self._is_chunked = False
        # In a chunked body: whether the trailer has begun.
        self._is_trailing = False

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may carry another request."""
        assert self.head is not None, "there is no head yet"
        closes = self.head.headers.get("connection", "").lower() == "close"
        return self.is_complete and not closes and not self._raw

    def feed(self, data: bytes) -> None:
        """Take what came; b"" is the end of the connection."""
        if not data:
            self._end()
            return
        self._raw += data
        if self.head is None:
            self._read_head()
        if self.head is not None and not self.is_complete:
            self._read_body()

    def take(self) -> bytes:
        """Give the part of the body that came since it was last taken."""
        taken = bytes(self._body)
        self._body.clear()
        return taken

    def _end(self) -> None:
        if self.head is not None and self._left is None and not self._is_chunked:
            self.is_complete = True
        if not self.is_complete:
            raise LostConnectionError("the connection ended before its response did")

    def _read_head(self) -> None:
        while (end := self._raw.find(b"\r\n\r\n")) >= 0:
            lines = bytes(self._raw[:end]).decode("latin-1").split("\r\n")
            del self._raw[: end + 4]
            version, _, rest = lines[0].partition(" ")
            code = rest[:3]
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise LostConnectionError("the answer is no HTTP; correct the URL of the server")
            status = int(code)
            if status < 200:
                continue
            pairs = (line.partition(":") for line in lines[1:])
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            self.head = ApiAnswer(status, MappingProxyType(headers))
            self._begin_body(status, headers)
            return
        if len(self._raw) > HEAD_BYTES_MAX:
            raise LostConnectionError(f"the head of the answer has over {HEAD_BYTES_MAX} bytes")

    def _begin_body(self, status: int, headers: dict[str, str]) -> None:
        if status in _BODILESS:
            self.is_complete = True
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self._is_chunked = True
        elif "content-length" in headers:
            length = headers["content-length"]
            if not (length.isascii() and length.isdigit()):
                raise LostConnectionError("the answer has no readable length")
            self._left = int(length)
            self.is_complete = self._left == 0
        else:
            self._left = None

    def _read_body(self) -> None:
        if self._is_chunked:
            self._read_chunks()
        elif self._left is None:
            self._keep(len(self._raw))
        else:
            self._left -= self._keep(self._left)
            self.is_complete = self._left == 0

    def _read_chunks(self) -> None:
        while self._raw and not self.is_complete:
            if self._left:
                self._left -= self._keep(self._left)
                continue
            line = self._line()
            if line is None:
                return
            if self._is_trailing:
                self.is_complete = not line
            elif line:
                # The line end behind a chunk is an empty line before the next length.
                self._left = self._length(line)
                self._is_trailing = self._left == 0

    def _line(self) -> bytes | None:
        end = self._raw.find(b"\r\n")
        if end < 0:
            if len(self._raw) > LINE_BYTES_MAX:
                raise LostConnectionError("a chunk of the answer has no length")
            return None
        line = bytes(self._raw[:end])
        del self._raw[: end + 2]
        return line

    @staticmethod
    def _length(line: bytes) -> int:
        digits = line.partition(b";")[0].strip()
        if _LENGTH.fullmatch(digits) is None:
            raise LostConnectionError("a chunk of the answer has no length")
        return int(digits, 16)

    def _keep(self, most: int) -> int:
        part = self._raw[:most]
        self._body_bytes += len(part)
        if self._body_bytes > BODY_BYTES_MAX:
            raise LostConnectionError(f"the answer has over {BODY_BYTES_MAX} bytes")
        self._body += part
        del self._raw[:most]
        return len(part)
