"""Read server-sent events as their bytes come."""

from dataclasses import dataclass

from mailonce.client.steps import LostConnectionError

EVENT_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name, its id and its data."""

    name: str
    id: str
    data: str


class ServerEventReader:
    """A stream of events: fed with bytes, it gives the events that are whole.

    Lines end in LF or CRLF, as our server writes them.
    """

    def __init__(self) -> None:
        self._raw = bytearray()
        # Up to here no event ends: one of many megabytes is not searched again with each piece.
        self._searched = 0

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take what came; comments and events without data are left out.

        Raises: LostConnectionError where an event never ends.
        """
        self._raw += data.replace(b"\r\n", b"\n")
        events = []
        while (end := self._raw.find(b"\n\n", self._searched)) >= 0:
            block = bytes(self._raw[:end]).decode("utf-8", "replace")
            del self._raw[: end + 2]
            self._searched = 0
            event = _event_in(block)
            if event is not None:
                events.append(event)
        self._searched = max(0, len(self._raw) - 1)
        if len(self._raw) > EVENT_BYTES_MAX:
            raise LostConnectionError(f"an event has over {EVENT_BYTES_MAX} bytes")
        return events


def _event_in(block: str) -> ServerEvent | None:
    fields: dict[str, list[str]] = {}
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))
    if "data" not in fields:
        return None
    name, id_ = (fields.get(field, [""])[-1] for field in ("event", "id"))
    return ServerEvent(name or "message", id_, "\n".join(fields["data"]))
