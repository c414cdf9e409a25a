"""Every way in which a simulated provider hands over mail, judged and read by our own code."""

from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.mail_fetch import (
    FetchAnswer,
    FetchOutcome,
    FetchRequest,
    run_fetch,
)
from mailonce.core.arrivals.provider import NeedKey, Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import FetchContent, IncomingMail
from mailonce.manage.records import source_of
from mailonce.manage.sources import check_source
from mailonce.pipeline.verify import verify_now
from mailonce.providers import inbound
from mailonce.settings import SourceSettings
from mailonce.testing import Post, Simulator, mail_posts, mail_settings, make_simulator
from mailonce.testing.inbound import hook_of, names

NOW_S = 1_767_225_600
SENDER = "bounce+1@example.org"
RECIPIENTS = ("In+7@example.net", "second@example.net")


@dataclass(frozen=True, slots=True)
class Way:
    """A provider's simulator, and one of its modes."""

    name: str
    mode: str

    def __str__(self) -> str:
        return f"{self.name}-{self.mode}"


WAYS = [Way(name, mode) for name in names() for mode in hook_of(make_simulator(name, "1")).modes]


@dataclass(frozen=True, slots=True)
class Rig:
    """A simulator, and the source that trusts it."""

    simulator: Simulator
    source: Source
    mode: str

    @property
    def provider(self) -> Provider:
        provider = providers.find(self.source.provider)
        assert provider is not None
        return provider

    def posts(
        self, mail: bytes, recipients: Sequence[str] = RECIPIENTS, *, now_s: int = NOW_S
    ) -> list[Post]:
        return mail_posts(
            self.simulator, mail, sender=SENDER, recipients=recipients, now_s=now_s, mode=self.mode
        )

    def post(self, mail: bytes) -> Post:
        (post,) = self.posts(mail, RECIPIENTS[:1])
        return post

    def judge(self, post: Post) -> Verdict:
        verdict = verify_now(self.provider, self.source, arrival_of(post))
        assert not isinstance(verdict, NeedKey), "a simulated source pins its keys"
        return verdict

    def parse(self, post: Post) -> Parsed:
        return self.provider.parse(arrival_of(post), self.source)

    def mail(self, mail: bytes) -> IncomingMail:
        (read,) = self.parse(self.post(mail)).mails
        return read


def rig_of(way: Way, **options: Any) -> Rig:
    simulator = make_simulator(way.name, "1")
    settings = mail_settings(simulator)
    settings["options"] = {**settings.get("options", {}), **options}
    source = source_of("main", SourceSettings(**settings))
    check_source(source, window_days=35)
    return Rig(simulator, source, way.mode)


def arrival_of(post: Post, *, now_s: int = NOW_S) -> Arrival:
    headers = {name.lower(): value for name, value in post.headers.items()}
    return Arrival(method=post.method, headers=headers, body=post.body, now_ms=now_s * 1000)


async def fetched(rig: Rig, content: FetchContent) -> tuple[FetchOutcome, list[FetchRequest]]:
    """Fetch as the worker does, from the simulator's own answers."""
    asked: list[FetchRequest] = []

    async def ask(request: FetchRequest) -> FetchAnswer:
        asked.append(request)
        return rig.simulator.answers.get(request.url, FetchAnswer(status=404))

    fetch = inbound.find(content.what)
    assert fetch is not None, content.what
    outcome = await run_fetch(
        fetch, content.arguments, rig.source, ask, now_ms=lambda: NOW_S * 1000
    )
    return outcome, asked


def make_mail(**headers: str) -> bytes:
    """Write a mail with text, HTML, a picture in it and a file, in UTF-8."""
    message = EmailMessage(policy=SMTP)
    message["From"] = "Jörg Bob <bob@example.org>"
    message["To"] = '"Lee, Ann" <ann@example.net>, other@example.net'
    message["Cc"] = "cee@example.net"
    message["Reply-To"] = "desk@example.org"
    message["Subject"] = "Grüße aus Köln"
    message["Date"] = "Thu, 01 Jan 2026 00:00:00 +0000"
    message["Message-ID"] = "<m1@example.org>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Grüße\r\n.\r\nvon Bob\r\n")
    message.add_alternative("<p>Grüße <img src='cid:logo@x'></p>\r\n", subtype="html")
    html = message.get_payload()[1]  # type: ignore[index]
    html.add_related(  # type: ignore[union-attr]
        b"\x89PNG\x00\xff",
        "image",
        "png",
        cid="<logo@x>",
        filename="logo.png",
        disposition="inline",
    )
    message.add_attachment(b"%PDF-\xff", "application", "pdf", filename="invoice 7.pdf")
    return message.as_bytes()
