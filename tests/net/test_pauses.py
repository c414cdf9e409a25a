"""An answer that came while the process was stopped is read before its time is up."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

from mailonce.core.sends.sender import Sender, Tls
from mailonce.core.sends.sending import Accepted, SmtpRequest
from mailonce.net.connection import OutgoingConnection
from mailonce.net.dialer import Dialer
from mailonce.net.smtp import SmtpClient
from tests.servers import wait_for

WAIT_S = 30
TIMEOUT_S = 1.0
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MAIL = SmtpRequest(mail_from="a@b.example", rcpt_to="c@d.example", message=b"A: b\r\n\r\nhi\r\n")
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Peer:
    """A server in a thread of its own, which goes on while the loop of the client stands still."""

    def __init__(self, talk: Callable[["Peer", Any], None]) -> None:
        self._talk = talk
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.asked, self.may_answer, self.has_answered = (threading.Event() for _ in range(3))

    def run(self) -> None:
        connection, _ = self._listening.accept()
        with connection, connection.makefile("rwb", buffering=0) as stream:
            self._talk(self, stream)
            stream.read()

    def answer(self, stream: Any, words: bytes) -> None:
        """Say that it was asked, and answer once the client stands still."""
        self.asked.set()
        assert self.may_answer.wait(WAIT_S)
        stream.write(words)
        self.has_answered.set()

    def let_answer(self) -> None:
        """Stand still until the answer has come."""
        self.may_answer.set()
        assert self.has_answered.wait(WAIT_S)

    def close(self) -> None:
        self._listening.close()


@contextmanager
def serving(talk: Callable[[Peer, Any], None]) -> Iterator[Peer]:
    peer = Peer(talk)
    thread = threading.Thread(target=peer.run, daemon=True)
    thread.start()
    try:
        yield peer
    finally:
        thread.join(WAIT_S)
        peer.close()


@pytest.mark.parametrize("kind", LOOPS)
def test_an_answer_over_http_counts(kind: str) -> None:
    def talk(peer: Peer, stream: Any) -> None:
        while stream.readline() != b"\r\n":
            pass
        peer.answer(stream, ANSWER)

    async def call(peer: Peer) -> int:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: OutgoingConnection(loop, lambda _: None), "127.0.0.1", peer.port
        )
        reply = connection.ask(REQUEST, bytes_max=100, timeout_s=TIMEOUT_S)
        over_s = time.monotonic() + TIMEOUT_S
        await asyncio.to_thread(peer.asked.wait, WAIT_S)
        peer.let_answer()
        wait_for(lambda: time.monotonic() > over_s, what="the time to be over")
        # As it is when a process goes on: its timers are looked at before its sockets.
        connection._expire()
        try:
            return (await reply).status
        finally:
            connection.close()

    with serving(talk) as peer, asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        assert runner.run(call(peer)) == 200


def test_a_reply_to_the_final_dot_counts() -> None:
    def talk(peer: Peer, stream: Any) -> None:
        stream.write(b"220 hello\r\n")
        for code in (250, 250, 250, 354):
            stream.readline()
            stream.write(b"%d go on\r\n" % code)
        while stream.readline() != b".\r\n":
            pass
        peer.answer(stream, b"250 queued\r\n")

    async def send(peer: Peer) -> object:
        sender = Sender(
            id="snr_1", workspace="default", name="out", provider="smtp", host="127.0.0.1",
            port=peer.port, tls=Tls.NONE, options={"dot_timeout_s": TIMEOUT_S},
        )  # fmt: skip
        dialer = Dialer(allow_hosts=["127.0.0.1"], hosts={}, ca_file=None, resolver=None)
        client = SmtpClient(dialer)
        sending = asyncio.create_task(client.send(MAIL, sender, may_begin=lambda: True))
        await asyncio.to_thread(peer.asked.wait, WAIT_S)
        over_s = time.monotonic() + TIMEOUT_S
        peer.let_answer()
        wait_for(lambda: time.monotonic() > over_s, what="the time to be over")
        try:
            return await sending
        finally:
            client.close()

    with serving(talk) as peer, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(send(peer))

    assert outcome == Accepted(message_id=None, evidence="250 queued")
