"""An outgoing mail: a frozen record that two retries can compare."""

from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingMail


def test_equal_mails_are_equal() -> None:
    def mail() -> OutgoingMail:
        return OutgoingMail(
            from_=Mailbox("shop@example.com", "Shop"),
            to=Mailbox("ann@example.net"),
            subject="Receipt",
            message_id="<1@example.com>",
            text="Thanks",
        )

    assert mail() == mail()
    assert mail().to.name == ""
