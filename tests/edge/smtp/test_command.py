"""The paths and parameters of MAIL and RCPT."""

import pytest

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies
from mailonce.edge.smtp.command import MailSender, read_recipient, read_sender

SENDERS = {
    b"FROM:<a@b.test>": MailSender("a@b.test", None, is_utf8=False),
    b"FROM:<>": MailSender("", None, is_utf8=False),
    b"from: <a@b.test>": MailSender("a@b.test", None, is_utf8=False),
    b"FROM:<a@b.test> SIZE=12": MailSender("a@b.test", 12, is_utf8=False),
    b"FROM:<a@b.test>  size=12  body=8BITMIME ": MailSender("a@b.test", 12, is_utf8=False),
    b"FROM:<a@b.test> BODY=7bit": MailSender("a@b.test", None, is_utf8=False),
    b"FROM:<root>": MailSender("root", None, is_utf8=False),
    b'FROM:<"a b"@b.test>': MailSender('"a b"@b.test', None, is_utf8=False),
    b'FROM:<"a@b\\""@b.test>': MailSender('"a@b\\""@b.test', None, is_utf8=False),
    b"FROM:<@relay.test,@other.test:a@b.test>": MailSender("a@b.test", None, is_utf8=False),
    b"FROM:<a@[192.0.2.1]>": MailSender("a@[192.0.2.1]", None, is_utf8=False),
    b"FROM:<a@[IPv6:2001:db8::1]>": MailSender("a@[IPv6:2001:db8::1]", None, is_utf8=False),
    b"FROM:<prvs=12ab=a+b/c=d@b.test>": MailSender("prvs=12ab=a+b/c=d@b.test", None, is_utf8=False),
    "FROM:<jörg@bücher.test> SMTPUTF8".encode(): MailSender("jörg@bücher.test", None, is_utf8=True),
    b"FROM:<a@b.test> AUTH=<>": MailSender("a@b.test", None, is_utf8=False),
}
REFUSED = {
    b"": replies.BAD_SENDER,
    b"FROM": replies.BAD_SENDER,
    b"FROM:": replies.BAD_SENDER,
    b"FROM:a@b.test": replies.BAD_SENDER,
    b"FROM:<a@b.test": replies.BAD_SENDER,
    b"FROM:<a@b.test>>": replies.BAD_SENDER,
    b"FROM:<a@b.test>SIZE=1": replies.BAD_SENDER,
    b"FROM:<a b@b.test>": replies.BAD_SENDER,
    b"FROM:<a@b@c.test>": replies.BAD_SENDER,
    b"FROM:<a@>": replies.BAD_SENDER,
    b"FROM:<@b.test>": replies.BAD_SENDER,
    b"FROM:<a@b..test>": replies.BAD_SENDER,
    b"FROM:<a@.test>": replies.BAD_SENDER,
    b"FROM:<a@b.test.>": replies.BAD_SENDER,
    b"FROM:<\xff@b.test>": replies.BAD_SENDER,
    b'FROM:<"a@b.test>': replies.BAD_SENDER,
    b"FROM:<" + b"a" * 600 + b"@b.test>": replies.BAD_SENDER,
    "FROM:<jörg@b.test>".encode(): replies.NEEDS_UTF8,
    b"FROM:<a@b.test> SIZE": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> SIZE=": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> SIZE=-1": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> SIZE=1e9": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> SIZE=" + b"9" * 21: replies.BAD_PARAMETER,
    b"FROM:<a@b.test> SIZE=1 SIZE=2": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> BODY=BINARYMIME": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> SMTPUTF8=yes": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> =x": replies.BAD_PARAMETER,
    b"FROM:<a@b.test> RET=FULL": replies.STRANGE_PARAMETER,
}


@pytest.mark.parametrize("argument", SENDERS)
def test_a_sender_is_read(argument: bytes) -> None:
    assert read_sender(argument, offers_auth=True) == SENDERS[argument]


@pytest.mark.parametrize("argument", REFUSED)
def test_a_sender_that_is_none_is_refused(argument: bytes) -> None:
    assert read_sender(argument, offers_auth=True) is REFUSED[argument]


def test_auth_is_no_parameter_where_nobody_can_log_in() -> None:
    argument = b"FROM:<a@b.test> AUTH=<>"

    assert read_sender(argument, offers_auth=False) is replies.STRANGE_PARAMETER


@pytest.mark.parametrize(
    ("argument", "address"),
    [
        (b"TO:<Box+Tag@In.Test>", "Box+Tag@In.Test"),
        (b"to: <@relay.test:box@in.test>", "box@in.test"),
        (b"TO:<postmaster>", "postmaster"),
        (b'TO:<"box"@in.test>', '"box"@in.test'),
        (b"TO:<>", replies.BAD_RECIPIENT),
        (b"TO:box@in.test", replies.BAD_RECIPIENT),
        (b"TO:<box@in.test>,<ox@in.test>", replies.BAD_RECIPIENT),
        (b"FROM:<box@in.test>", replies.BAD_RECIPIENT),
        (b"TO:<box@in.test> NOTIFY=NEVER", replies.STRANGE_PARAMETER),
        ("TO:<büx@in.test>".encode(), replies.NEEDS_UTF8),
    ],
)
def test_a_recipient_is_read_as_it_is_written(argument: bytes, address: str | DoorRefusal) -> None:
    assert read_recipient(argument, is_utf8=False) == address


def test_a_recipient_beyond_ascii_is_read_where_the_sender_said_so() -> None:
    assert read_recipient("TO:<büx@in.test>".encode(), is_utf8=True) == "büx@in.test"
