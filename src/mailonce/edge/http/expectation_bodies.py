"""The bodies of requests about expectations."""

from typing import Any

from msgspec import UNSET
from pydantic import Field

from mailonce.core.expectations.expectation import DEADLINE_S, RESENDS, RESENDS_MAX
from mailonce.core.expectations.expectation_request import ExpectationRequest
from mailonce.core.expectations.narrow import NarrowRequest
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.edge.http.inboxes import NewInbox, StrictBody
from mailonce.edge.http.manage import StorableText
from mailonce.edge.http.query import NUMBER_MAX

TEXTS_MAX = 20
CONSUME_KEY = Field(
    min_length=1,
    max_length=200,
    description="a word of your own for this attempt: the same one gets the same value again",
)


class NewExpectation(StrictBody):
    """What an inbox should get."""

    kind: ArtifactKind = Field(description="a one-time code, a link, or one word of `states`")
    senders: list[StorableText] = Field(
        default=[], max_length=TEXTS_MAX, description="addresses, or @domain; none: whoever writes"
    )
    subject_contains: list[StorableText] = Field(
        default=[], max_length=TEXTS_MAX, description="words that the subject has, all of them"
    )
    code_format: StorableText | None = Field(
        default=None, max_length=200, description="such as digits:6; see docs/extraction.md"
    )
    link_hosts: list[StorableText] = Field(
        default=[],
        max_length=TEXTS_MAX,
        description="needed for a link: where it may lead, such as example.com/verify; never "
        "derived from a mail",
    )
    only_candidate: bool = Field(
        default=False,
        description=(
            "take the only link to these hosts, or the only code of this format, also where no "
            "words say what it is for: for an inbox that gets no other mail, as a test's"
        ),
    )
    states: list[StorableText] = Field(
        default=[],
        max_length=TEXTS_MAX,
        description="needed for a state: the states that a mail may report",
    )
    require_dmarc: bool = Field(default=False, description="hold back mail that did not pass DMARC")
    for_: StorableText | None = Field(
        default=None,
        alias="for",
        max_length=200,
        description="for whom the artifact counts; default: the inbox",
    )
    deadline_s: float = Field(default=DEADLINE_S, description="seconds until it expires")
    resends: int = Field(
        default=RESENDS, le=RESENDS_MAX, description="how often the mail may be asked for again"
    )

    after: int | None = Field(
        default=None,
        ge=0,
        le=NUMBER_MAX,
        description=(
            "with an operator's key: mail behind this `seq` of the inbox counts, too, "
            "however old it is"
        ),
    )

    def request(self) -> ExpectationRequest:
        return ExpectationRequest(
            kind=self.kind,
            senders=tuple(self.senders),
            subject_contains=tuple(self.subject_contains),
            code_format=self.code_format,
            link_hosts=tuple(self.link_hosts),
            only_candidate=self.only_candidate,
            states=tuple(self.states),
            require_dmarc=self.require_dmarc,
            subject=self.for_,
            deadline_s=self.deadline_s,
            resends=self.resends,
            after=self.after,
        )


class NewInboxExpectation(NewExpectation):
    """What a new inbox should get."""

    inbox: NewInbox = Field(default=NewInbox(), description="the inbox to make")


class NarrowerExpectation(StrictBody):
    """What is to be narrower; what is left out stays."""

    senders: list[StorableText] | None = Field(default=None, max_length=TEXTS_MAX)
    subject_contains: list[StorableText] | None = Field(default=None, max_length=TEXTS_MAX)
    code_format: StorableText | None = Field(default=None, max_length=200)
    link_hosts: list[StorableText] | None = Field(default=None, max_length=TEXTS_MAX)
    states: list[StorableText] | None = Field(default=None, max_length=TEXTS_MAX)
    require_dmarc: bool | None = None
    deadline_s: float | None = None
    resends: int | None = None

    def request(self) -> NarrowRequest:
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        fields: dict[str, Any] = {
            name: UNSET if value is None else tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        return NarrowRequest(**fields)


class ConsumeRequest(StrictBody):
    """Whose attempt it is."""

    consume_key: str = CONSUME_KEY


class Confirmation(StrictBody):
    """Whether the value did what it was for."""

    consume_key: str = CONSUME_KEY
    accepted: bool


class ResendRequest(StrictBody):
    """Which resend is asked for."""

    number: int | None = Field(
        default=None,
        ge=1,
        le=RESENDS_MAX,
        description="counted from 1; asked for again, it gets the same answer",
    )
