"""An outgoing mail: a frozen record that two retries can compare."""

from tests.core.sends.mails import full_mail, plain_mail


def test_equal_mails_are_equal() -> None:
    assert full_mail() == full_mail()
    assert plain_mail() != plain_mail(subject="Another")
    assert plain_mail().to.name == ""
