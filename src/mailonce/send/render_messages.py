"""What is said to the process that renders, and what it answers."""

from typing import Any

from msgspec import Struct


class RenderOrder(Struct, frozen=True, kw_only=True):
    """What to render, and with which variables; without any, it is only compiled.

    `is_plain`: the HTML is no template, and only its text is wanted.
    """

    subject: str
    html: str | None
    text: str | None
    variables: tuple[dict[str, Any], ...] = ()
    is_plain: bool = False


class RenderedMail(Struct, frozen=True, kw_only=True):
    """The words of one mail."""

    subject: str
    html: str | None
    text: str | None


class RenderAnswer(Struct, frozen=True, kw_only=True):
    """The mails in the order of their variables, or what is wrong in one sentence."""

    mails: tuple[RenderedMail, ...] = ()
    trouble: str | None = None
