"""Settings of a route."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from mailonce.core.deliveries.route import BLAMED_ATTEMPTS_MAX, DEADLINE_S, WAITS_S, RouteKind
from mailonce.core.deliveries.route_secret import Signing
from mailonce.settings.part import YEARS_S, SettingsPart
from mailonce.settings.secrets import refuse_files


class RouteSettings(SettingsPart):
    """A filter over events, and the target of those that pass."""

    kind: RouteKind = Field(
        default=RouteKind.WEBHOOK,
        description="webhook: mailonce posts; poll: you fetch (--app runs your own code)",
    )
    url: str = Field(default="", description="where a webhook is posted to")
    events: list[str] = Field(default=["*"], description="types of event; * is all of them")
    sources: list[str] = Field(default=[], description="names or ids; none: from every source")
    domains: list[str] = Field(
        default=[], description="of the recipient; a domain stands for its subdomains, too"
    )
    tags: list[str] = Field(default=[], description="one of them is enough")
    metadata: dict[str, Any] = Field(default={}, description="all of them must be equal")
    senders: list[str] = Field(
        default=[], description="of inbound mail: addresses, or @domain; one of them is enough"
    )
    subject_contains: list[str] = Field(
        default=[], description="of inbound mail: words; one of them in the subject is enough"
    )
    inboxes: list[str] = Field(
        default=[], description="of inbound mail: ids or addresses of inboxes"
    )
    has_attachments: bool | None = Field(
        default=None, description="of inbound mail: true: with some, false: without any"
    )
    inline_bytes_max: int = Field(
        default=0,
        ge=0,
        le=10 << 20,
        description="attachments up to this many bytes in all stand in the body, as base64; "
        "every attachment has a link that expires",
    )
    expression: str = Field(
        default="", description="JMESPath over the event as it is sent; true lets it pass"
    )
    mapping: Any = Field(
        default=None, description="the body to send instead; '$.path' is taken from the event"
    )
    secret: str | list[str] = Field(
        default=[], description="whsec_… or whsk_…, all of them sign; none: one is made"
    )
    signing: Signing = Field(
        default=Signing.HMAC, description="the kind of secret to make where none is given"
    )
    headers: dict[str, str] = Field(default={}, description="further headers of each request")
    waits_s: list[Annotated[float, Field(ge=0, le=7 * 86_400)]] = Field(
        default=list(WAITS_S), max_length=50, description="seconds between the attempts"
    )
    deadline_s: int = Field(
        default=DEADLINE_S,
        ge=1,
        le=YEARS_S,
        description="when to give up, counted from the event's receipt",
    )
    blamed_attempts_max: int = Field(
        default=BLAMED_ATTEMPTS_MAX,
        ge=1,
        le=100,
        description="attempts in all where the answer rejects the request (400, 404 …); "
        "by default the first is the last",
    )
    timeout_s: float = Field(default=15.0, gt=0, le=60, description="how long an answer may take")
    concurrency: int = Field(default=32, ge=1, le=1000, description="requests at once")
    rate_per_s: float | None = Field(
        default=None, gt=0, le=100_000, description="attempts a second; default: no limit"
    )

    _are_no_files = refuse_files("ROUTES", "secret")

    @field_validator("kind")
    @classmethod
    def _has_no_code(cls, value: RouteKind) -> RouteKind:
        if value is RouteKind.HANDLER:
            raise ValueError(
                "a handler is made by your own code with `mailonce serve --app`; "
                "use webhook or poll"
            )
        return value
