"""Links that lead, or seem to lead, to the host that is allowed."""

from mailonce.testing.hostile.hostile_mail import (
    ATTACKER,
    LINK,
    NOTHING,
    USE,
    USE_OR_NOTHING,
    HostileMail,
    SafeUse,
    html_mail,
    plain_mail,
)

_WORDS = "Confirm your email"


def _link(
    name: str, about: str, url: str, safe: frozenset[SafeUse] = NOTHING, *, text: str = _WORDS
) -> HostileMail:
    html = f'<p>Please confirm your email address.</p><a href="{url}">{text}</a>'
    return HostileMail(
        name=name, about=about, mails=(html_mail(html),), kind="link", safe=safe, value=LINK
    )


LINK_MAILS = (
    _link("plain_link", "there is one link", LINK, USE),
    HostileMail(
        name="link_in_text",
        about="the link stands in plain text",
        mails=(plain_mail(f"Confirm your email: {LINK}\r\n"),),
        kind="link",
        safe=USE,
        value=LINK,
    ),
    HostileMail(
        name="link_beside_others",
        about="a footer has links, too",
        mails=(
            html_mail(
                f'<a href="{LINK}">{_WORDS}</a><p><a href="https://shop.example/unsubscribe?x=1">'
                f'Unsubscribe</a> <a href="https://{ATTACKER}/">Our friends</a></p>'
            ),
        ),
        kind="link",
        safe=USE,
        value=LINK,
    ),
    _link(
        "host_in_front", "ours is a part of another host", f"https://shop.example.{ATTACKER}/verify"
    ),
    _link(
        "user_before_the_host",
        "ours is the name of a user",
        f"https://shop.example@{ATTACKER}/verify",
    ),
    _link("octal_address", "an address in another spelling", "https://0177.0.0.1/verify"),
    _link(
        "metadata_service", "an address of the cloud's own network", "http://169.254.169.254/latest"
    ),
    _link("not_https", "whoever listens could change it", LINK.replace("https", "http")),
    _link("script", "it is a program", "javascript:location='https://shop.example/verify'"),
    _link("homograph_host", "a letter is of another alphabet", "https://\u0455hop.example/verify"),
    _link("other_port", "another program answers there", "https://shop.example:8443/verify"),
    _link("backslash", "programs read it differently", f"https://{ATTACKER}\\@shop.example/verify"),
    _link(
        "text_of_another_link",
        "the text shows our host, the link leads elsewhere",
        f"https://{ATTACKER}/verify",
        USE_OR_NOTHING,
        text=LINK,
    ),
    _link(
        "redirect_to_elsewhere",
        "our host is told to lead on",
        f"https://shop.example/r?next=https://{ATTACKER}/",
    ),
)
