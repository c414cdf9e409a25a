"""Senders that look like the one an agent waits for."""

from mailonce.testing.hostile.hostile_mail import (
    ATTACKER,
    CODE,
    FALSE_CODE,
    NOTHING,
    SENDER,
    USE,
    HostileMail,
    mail_of,
    plain_mail,
)

_FALSE = f"Your verification code is {FALSE_CODE}."
_PLAIN = "Content-Type: text/plain"


def _from(sender: str, name: str, about: str) -> HostileMail:
    return HostileMail(
        name=name, about=about, mails=(plain_mail(_FALSE, sender=sender),), safe=NOTHING
    )


SENDER_MAILS = (
    _from("login@shop-example.com", "lookalike_domain", "the domain only looks alike"),
    _from(f"login@shop.example.{ATTACKER}", "domain_in_front", "ours is a part of another domain"),
    _from(f"xlogin@{'shop.example'}", "longer_local_part", "the address only ends like ours"),
    _from("login@notshop.example", "longer_domain", "the domain only ends like ours"),
    _from(f'"{SENDER}" <x@{ATTACKER}>', "address_as_a_name", "the name shown is an address"),
    _from(
        f"=?utf-8?q?login=40shop=2Eexample?= <x@{ATTACKER}>",
        "encoded_name",
        "the name shown is an address, encoded",
    ),
    _from("login@xn--hop-qyd.example", "homograph", "a letter is of another alphabet"),
    _from(f"{SENDER}, x@{ATTACKER}", "two_authors", "two people wrote it"),
    _from(f"x@{ATTACKER} ({SENDER})", "address_in_a_comment", "our sender is a comment"),
    _from(f"<x@{ATTACKER}>\r\nFrom: {SENDER}", "two_from_headers", "there are two From headers"),
    _from(
        f"{SENDER}\r\nFrom: x@{ATTACKER}",
        "two_from_headers_ours_first",
        "two From headers, ours first",
    ),
    _from("", "no_author", "there is no author at all"),
    HostileMail(
        name="sender_and_reply_to",
        about="Sender and Reply-To name ours, From another",
        mails=(
            mail_of(
                [f"Sender: {SENDER}", f"Reply-To: {SENDER}", _PLAIN],
                _FALSE.encode(),
                sender=f"x@{ATTACKER}",
            ),
        ),
        safe=NOTHING,
    ),
    HostileMail(
        name="code_of_another_sender_later",
        about="a later mail of somebody else takes nothing back",
        mails=(
            plain_mail(f"Your verification code is {CODE}."),
            plain_mail(_FALSE, sender=f"Shop <login@shop.{ATTACKER}>", number=2),
        ),
        safe=USE,
    ),
    HostileMail(
        name="forged_results",
        about="the mail itself says that it was authenticated",
        mails=(
            mail_of(
                [
                    f"Authentication-Results: mx.{ATTACKER}; dmarc=pass header.from=shop.example",
                    _PLAIN,
                ],
                _FALSE.encode(),
                sender=f"x@{ATTACKER}",
            ),
        ),
        safe=NOTHING,
    ),
)
