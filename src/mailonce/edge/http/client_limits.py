"""Limits of the door: for one client, and for all of them together."""

from dataclasses import dataclass

from mailonce.edge.connections import CrowdRefusals, DoorRefusal

# How long a refused client may go on sending, unread, so that it gets the answer. A connection that
# is closed with bytes unread is reset, and the answer is lost on the way.
LINGER_S = 2.0
LINGER_BYTES_MAX = 48 << 20
# Of a click that unsubscribes, which anybody may send.
CLICK_BYTES_MAX = 4 << 10
# A client that sends more than this at once is read again after the others.
PIECE_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """See the settings of the same names."""

    connections_max: int
    address_connections_max: int
    head_bytes_max: int
    headers_max: int
    body_bytes_max: int
    api_body_bytes_max: int
    send_bytes_max: int
    held_bytes_max: int
    unread_bytes_max: int
    head_timeout_s: float
    body_timeout_s: float
    body_bytes_per_s_min: int
    idle_timeout_s: float
    answer_timeout_s: float

    def api_body_max(self, url: bytes) -> int:
        """Say how large a body may be for a path of the API."""
        path = url.partition(b"?")[0]
        if path.startswith(b"/u/"):
            return CLICK_BYTES_MAX
        return self.send_bytes_max if path == b"/v1/sends" else self.api_body_bytes_max

    def is_slow(self, bytes_read: int, seconds: float, *, silent_s: float) -> bool:
        """Say whether a body takes too long: in silence, or at less than the slowest pace."""
        patience_s = self.body_timeout_s
        return (
            silent_s > patience_s or seconds > patience_s + bytes_read / self.body_bytes_per_s_min
        )


BAD_REQUEST = DoorRefusal(400, "not_http", "this is no HTTP/1.1 request; send one")
BAD_HOST = DoorRefusal(400, "host", "a request has one Host header; send it so")
SLOW_HEAD = DoorRefusal(408, "head_timeout", "the head of the request took too long; send it again")
SLOW_BODY = DoorRefusal(408, "body_timeout", "the body of the request took too long; send it again")
LONG_HEAD = DoorRefusal(431, "head_bytes", "the head of the request is too large; send less")
MANY_HEADERS = DoorRefusal(431, "headers", "the request has too many headers; send fewer")
NO_ROOM = DoorRefusal(503, "held_bytes", "too much is being received at once; send it again")
STOPPING = DoorRefusal(503, "stopping", "the server stops; send it again")
SILENT = DoorRefusal(408, "silent", "no request came")
UNREAD = DoorRefusal(408, "answer_timeout", "the answer was not read")
MAKE_ROOM = DoorRefusal(503, "make_room", "the connection made room for others; connect again")
NO_CONNECTION = DoorRefusal(
    503, "connections", "too many connections are open; connect again later"
)
NO_ADDRESS = DoorRefusal(
    429, "address_connections", "too many connections are open from this address; close some"
)
CROWD = CrowdRefusals(
    make_room=MAKE_ROOM, connections=NO_CONNECTION, address_connections=NO_ADDRESS
)
