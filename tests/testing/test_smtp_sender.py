"""A sender that lost the answer sends again; one that was refused for good does not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from mailonce.testing import send_mail
from mailonce.testing.smtp_sender import written

RECIPIENTS = ["a@example.net", "b@example.net"]
ENVELOPE: dict[str, Any] = {"sender": "bob@example.org", "recipients": RECIPIENTS}


@dataclass
class Receiver:
    """A mail server as simple as can be: it says what it is told to say behind the dot."""

    replies: list[str]
    rcpt: str = "250 ok"
    port: int = 0
    mails: list[bytes] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                try:
                    self._talk(line)
                except OSError:
                    continue

    def _talk(self, line: socket.socket) -> None:
        stream = line.makefile("rwb", buffering=0)
        stream.write(b"220 hello\r\n")
        while command := stream.readline():
            match command.split()[0].upper():
                case b"DATA":
                    stream.write(b"354 go on\r\n")
                    lines = []
                    while (text := stream.readline()) not in {b".\r\n", b""}:
                        lines.append(text)
                    self.mails.append(b"".join(lines))
                    reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                    stream.write(f"{reply}\r\n".encode())
                case b"RCPT":
                    stream.write(f"{self.rcpt}\r\n".encode())
                case b"QUIT":
                    stream.write(b"221 bye\r\n")
                    return
                case _:
                    stream.write(b"250 ok\r\n")


@contextmanager
def receiving(*replies: str, rcpt: str = "250 ok") -> Iterator[Receiver]:
    listener = socket.create_server(("127.0.0.1", 0))
    receiver = Receiver(list(replies), rcpt, listener.getsockname()[1])
    thread = threading.Thread(target=receiver.serve, args=(listener,))
    thread.start()
    try:
        yield receiver
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


@pytest.mark.parametrize("hangs_up", [False, True])
def test_the_same_mail_comes_again_until_its_answer_is_heard(hangs_up: bool) -> None:  # noqa: FBT001
    with receiving("250 taken") as receiver:
        report = send_mail(
            "127.0.0.1",
            receiver.port,
            b"Subject: Hi\n\n.dots\n",
            **ENVELOPE,
            lost_answers=2,
            hangs_up=hangs_up,
        )

    assert report.codes == [None, None, 250]
    assert report.is_accepted
    assert receiver.mails == [b"Subject: Hi\r\n\r\n..dots\r\n"] * 3


def test_a_temporary_refusal_is_tried_again_and_a_final_one_is_not() -> None:
    with receiving("451 later", "250 taken") as receiver:
        report = send_mail("127.0.0.1", receiver.port, b"x", **ENVELOPE)
    with receiving("554 no") as refusing:
        refused = send_mail("127.0.0.1", refusing.port, b"x", **ENVELOPE)
    with receiving("250 taken", rcpt="550 no such inbox") as unknown:
        nobody = send_mail("127.0.0.1", unknown.port, b"x", **ENVELOPE)

    assert report.codes == [451, 250]
    assert (refused.codes, refused.reply) == ([554], "no")
    assert (nobody.codes, unknown.mails) == ([550], [])


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    report = send_mail("127.0.0.1", port, b"x", **ENVELOPE, attempts_max=2)

    assert report.codes == [None, None]
    assert not report.is_accepted


@pytest.mark.parametrize(
    ("mail", "line"),
    [
        (b"a", b"a\r\n.\r\n"),
        (b"a\r\n", b"a\r\n.\r\n"),
        (b".\n..\nx.", b"..\r\n...\r\nx.\r\n.\r\n"),
        (b"a\rb", b"a\r\nb\r\n.\r\n"),
    ],
)
def test_a_mail_is_written_with_crlf_and_doubled_dots(mail: bytes, line: bytes) -> None:
    assert written(mail) == line
