"""A storm of mail: many mails to a few inboxes, duplicated and reordered, by hook or over SMTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

from mailonce.testing.inbound import mail_post, mode_of
from mailonce.testing.mail import SimulatedMail
from mailonce.testing.plan import Plan, PlanOptions, plan_calls
from mailonce.testing.simulator import Happening, Post, Simulator

SENDER = "shop@example.org"
# A mail of several lines, so that damage to a post mostly meets what a signature alone tells.
TEXT = "Dear reader,\r\n\r\nthis is simulated mail number {number}.\r\n"


class HookSide:
    """The inbound hook of a simulated provider, posting the mail of a plan.

    Raises: ConfigError where the provider hands over no mail, or not in that mode.
    """

    def __init__(
        self, simulator: Simulator, mails: Sequence[SimulatedMail], *, mode: str | None = None
    ) -> None:
        self._simulator = simulator
        self._mails = {mail.id: mail for mail in mails}
        self._mode = mode_of(simulator, mode)
        self.to = simulator.to
        self.resigns = simulator.resigns
        self.retry_waits_s = simulator.retry_waits_s
        self.stops = simulator.stops

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Post the mail of a happening as the provider does."""
        (one,) = happenings
        mail = self._mails[one.id]
        return mail_post(
            self._simulator,
            mail.raw,
            sender=mail.sender,
            recipients=mail.recipients,
            now_s=now_s,
            mode=self._mode,
        )

    def damage(self, post: Post, rng: Random) -> Post:
        """Lose the end of a post on its way."""
        return replace(post, body=post.body[: rng.randrange(len(post.body))])


@dataclass(frozen=True, slots=True)
class SmtpDelivery:
    """A mail that is sent until its reply is seen; of the first attempts it is lost."""

    mail: SimulatedMail
    lost_answers: int = 0
    hangs_up: bool = False


def make_mails(
    recipients: Sequence[str], name: str, count: int, *, now_s: int
) -> list[SimulatedMail]:
    """Write mails for these recipients in turn; `name` tells those of one run from another's."""
    return [
        _mail(recipients[number % len(recipients)], name, number, now_s) for number in range(count)
    ]


def plan_mails(mails: Sequence[SimulatedMail], options: PlanOptions) -> Plan:
    """Plan the posts of these mails, one in each; `options.events` does not count."""
    rng = Random(f"mail/{options.seed}")  # noqa: S311 - the same plan for the same seed
    return plan_calls([mail.happening for mail in mails], options, rng, batch_max=1)


def plan_deliveries(mails: Sequence[SimulatedMail], options: PlanOptions) -> list[SmtpDelivery]:
    """Plan how these mails are sent over SMTP: a duplicate is made by a reply that is lost."""
    rng = Random(f"smtp/{options.seed}")  # noqa: S311 - the same plan for the same seed
    lost: Mapping[int, int] = _shares(len(mails), options.duplicates, rng)
    deliveries = [
        SmtpDelivery(mail, lost.get(number, 0), hangs_up=rng.random() < 0.5)
        for number, mail in enumerate(mails)
    ]
    if options.shuffle:
        rng.shuffle(deliveries)
    return deliveries


def _shares(count: int, each: float, rng: Random) -> dict[int, int]:
    """Deal `count * each` over `count` places: the whole part to all, the rest to some."""
    whole, rest = int(each), round(count * (each % 1))
    lucky = set(rng.sample(range(count), rest))
    return {number: whole + (number in lucky) for number in range(count)}


def _mail(recipient: str, name: str, number: int, now_s: int) -> SimulatedMail:
    date = format_datetime(datetime.fromtimestamp(now_s, UTC))
    head = [
        f"From: Simulated Shop <{SENDER}>",
        f"To: {recipient}",
        f"Subject: Simulated mail {number}",
        f"Date: {date}",
        f"Message-ID: <{name}-{number:05}@example.org>",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
    ]
    raw = "\r\n".join([*head, "", TEXT.format(number=number)])
    return SimulatedMail(raw.encode(), SENDER, (recipient,))
