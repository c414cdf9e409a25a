"""`mailonce simulate mail`: hostile and awkward mails, by name, sent over SMTP to an inbox."""

from mailonce.edge.cli.show import Column, Show
from mailonce.edge.cli.simulate_smtp import TO, MailWish, place_of_server
from mailonce.errors import ConfigError
from mailonce.testing import PlanOptions
from mailonce.testing.hostile import HostileMail, hostile_mails

HOSTILE = "mail"
COLUMNS = (
    Column("name", "name"),
    Column("kind", "kind"),
    Column("safe", "safe"),
    Column("replies", "replies"),
    Column("about", "about"),
)


def simulate_hostile(show: Show, to: str | None, wish: MailWish, options: PlanOptions) -> bool:
    """Send the mails to each address, or list them where none is given; say whether all went out.

    A server may refuse some of them: that is no fault, and shown.
    """
    del options
    mails = _mails(wish.mode)
    host, port = place_of_server(to or TO)
    rows = []
    with show.progress() as progress:
        task = progress.add_task("mails", total=len(mails) * len(wish.recipients))
        for mail in mails:
            codes: list[str] = []
            for address in wish.recipients:
                reports = mail.send(host, port, address)
                codes += [str(report.codes[-1] or report.reply) for report in reports]
                progress.advance(task)
            rows.append(_row(mail, codes))
    answered = all(code.isdigit() for row in rows for code in row["replies"].split())
    if not show.answer({"mails": rows, "well": answered}):
        show.table(COLUMNS, rows)
        show.say("sent; each says what is safe" if wish.recipients else "send them with --mail")
    return answered


def _mails(name: str | None) -> list[HostileMail]:
    if name is None:
        return hostile_mails()
    try:
        return hostile_mails(name)
    except KeyError:
        raise ConfigError(
            f"there is no mail {name[:40]!r}; `mailonce simulate mail` lists them"
        ) from None


def _row(mail: HostileMail, codes: list[str]) -> dict[str, str]:
    return {
        "name": mail.name,
        "kind": mail.kind,
        "safe": " or ".join(sorted(mail.safe)),
        "replies": " ".join(codes),
        "about": mail.about,
    }
