import pytest

from mailonce.core.mail.delivery_report import MailReport
from tests.core.mail.mails import make_mail, make_multipart, read

ORIGINAL = "Message-ID: <sent@example.com>\nSubject: Invoice\nX-Mailonce-Id: snd_1\n\nbody"
STATUS_TYPE = "Content-Type: message/delivery-status"
STATUS = """Reporting-MTA: dns; mx.example.net
Original-Envelope-Id: env1

Original-Recipient: rfc822; ann@example.org
Final-Recipient: rfc822; ann@internal.example.org
Action: failed
Status: 5.1.1 (user unknown)
Remote-MTA: dns; mx.example.org
Diagnostic-Code: smtp; 550 5.1.1 <ann@example.org>: no such
  user"""


def report_of(*parts: tuple[str, str]) -> MailReport:
    report = read(make_multipart("report", parts)).report
    assert report is not None
    return report


def test_a_bounce_is_read() -> None:
    report = report_of(
        ("Content-Type: text/plain", "It failed."),
        ("Content-Type: message/delivery-status", STATUS),
        ("Content-Type: message/rfc822", ORIGINAL),
    )

    assert report.kind == "bounce"
    assert (report.reporting_mta, report.original_envelope_id) == ("mx.example.net", "env1")
    assert report.original_message_id == "sent@example.com"
    assert (report.original_subject, report.original_send_id) == ("Invoice", "snd_1")
    (recipient,) = report.recipients
    assert (recipient.address, recipient.action) == ("ann@example.org", "failed")
    assert (recipient.status, recipient.remote_mta) == ("5.1.1", "mx.example.org")
    assert recipient.diagnostic == "550 5.1.1 <ann@example.org>: no such user"


@pytest.mark.parametrize(
    ("status", "kind", "action"),
    [
        ("Action: delayed\nStatus: 4.4.1", "delay", "delayed"),
        ("Action: delivered\nStatus: 2.0.0", "delivery_report", "delivered"),
        ("Action: relayed", "delivery_report", "relayed"),
        ("Final-Recipient: rfc822;a@b.example\nStatus: 5.0.0", "bounce", "failed"),
        ("Action: exploded", "bounce", None),
    ],
)
def test_what_happened_tells_the_kind(status: str, kind: str, action: str | None) -> None:
    report = report_of(
        ("Content-Type: message/delivery-status", f"Reporting-MTA: dns; a\n\n{status}")
    )

    assert (report.kind, report.recipients[0].action) == (kind, action)


def test_a_read_receipt_names_the_mail_that_was_read() -> None:
    receipt = (
        "Final-Recipient: rfc822; ann@example.org\nOriginal-Message-ID: <sent@example.com>\n"
        "Disposition: manual-action/MDN-sent-manually; displayed"
    )
    report = report_of(("Content-Type: message/disposition-notification", receipt))

    assert (report.kind, report.detail) == ("read_receipt", "displayed")
    assert report.original_message_id == "sent@example.com"
    assert report.recipients[0].address == "ann@example.org"


def test_a_complaint_names_the_mail_that_annoyed() -> None:
    report = report_of(
        (
            "Content-Type: message/feedback-report",
            "Feedback-Type: abuse\nVersion: 1\nOriginal-Rcpt-To: <ann@example.org>",
        ),
        ("Content-Type: message/rfc822", ORIGINAL),
    )

    assert (report.kind, report.detail) == ("complaint", "abuse")
    assert report.original_message_id == "sent@example.com"
    assert report.recipients[0].address == "ann@example.org"


def test_the_words_of_qmail_are_known() -> None:
    text = (
        "Hi. This is the qmail-send program at mx.example.net.\n"
        "I'm afraid I wasn't able to deliver your message to the following addresses.\n\n"
        "<ann@example.org>:\n192.0.2.1 does not like recipient.\n"
        "Remote host said: 550 5.1.1 no such user\n\n"
        "--- Below this line is a copy of the message.\n\n"
        f"Return-Path: <bob@example.com>\n{ORIGINAL}"
    )

    report = read(make_mail(text)).report

    assert report is not None
    assert report.original_message_id == "sent@example.com"
    assert (report.recipients[0].address, report.recipients[0].status) == (
        "ann@example.org",
        "5.1.1",
    )


def test_the_words_of_exim_are_known() -> None:
    text = (
        "This message was created automatically by mail delivery software.\n\n"
        "A message that you sent could not be delivered to one or more of its recipients.\n\n"
        "  ann@example.org\n    host mx.example.org [192.0.2.1]\n"
        "    SMTP error from remote mail server after RCPT TO: 550 5.7.1 blocked\n\n"
        "------ This is a copy of the message, including all the headers. ------\n\n"
        f"Return-path: <bob@example.com>\n{ORIGINAL}"
    )

    report = read(make_mail(text, "X-Failed-Recipients: ann@example.org")).report

    assert report is not None
    assert report.original_message_id == "sent@example.com"
    assert (report.recipients[0].address, report.recipients[0].status) == (
        "ann@example.org",
        "5.7.1",
    )


def test_an_ordinary_mail_reports_nothing() -> None:
    assert read(make_mail("550 5.1.1 is a code.\n")).report is None


def test_many_recipients_are_bounded() -> None:
    groups = "\n\n".join(
        f"Final-Recipient: rfc822; a{n}@b.example\nAction: failed" for n in range(500)
    )
    report = report_of(
        ("Content-Type: message/delivery-status", f"Reporting-MTA: dns; a\n\n{groups}")
    )

    assert len(report.recipients) == 100
