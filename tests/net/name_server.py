"""A name server on the loopback: it knows what a test says, and is silent where it says so."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


@dataclass
class NameServer:
    """Records by (name, type), as a zone file writes them; a silent name gets no answer."""

    records: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    port: int = 0

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add_text(self, name: str, text: str) -> None:
        """Add a TXT record, in the pieces of which it is made."""
        pieces = " ".join(f'"{text[at : at + 200]}"' for at in range(0, len(text), 200))
        self.records.setdefault((name, "TXT"), []).append(pieces)

    def serve(self, line: socket.socket, stop: threading.Event) -> None:
        line.settimeout(0.05)
        while not stop.is_set():
            try:
                data, peer = line.recvfrom(4096)
            except TimeoutError:
                continue
            answer = self._answer(data)
            if answer is not None:
                line.sendto(answer, peer)

    def _answer(self, data: bytes) -> bytes | None:
        query = dns.message.from_wire(data)
        [question] = query.question
        name = question.name.to_text(omit_final_dot=True).lower()
        self.asked[name] += 1
        if "*" in self.silent or name in self.silent:
            return None
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        rows = self.records.get((name, dns.rdatatype.to_text(question.rdtype)))
        if name in self.broken:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif rows:
            rrset = dns.rrset.from_text(question.name, 60, "IN", question.rdtype, *rows)
            answer.answer.append(rrset)
        elif not any(known == name for known, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer.to_wire(max_size=4096)


@contextmanager
def running_name_server() -> Iterator[NameServer]:
    """Run it on a thread: who checks senders asks from another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        server = NameServer(port=line.getsockname()[1])
        stop = threading.Event()
        thread = threading.Thread(target=server.serve, args=(line, stop))
        thread.start()
        try:
            yield server
        finally:
            stop.set()
            thread.join(30)
