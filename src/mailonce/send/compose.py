"""Compose: the words of a mail, for each recipient, as the ledger keeps them."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.core.json_text import canonical
from mailonce.core.sends.mail_content import MailContent, written_content
from mailonce.core.sends.mail_template import MailTemplate
from mailonce.core.sends.mail_words import trouble_of_words
from mailonce.core.sends.plain_text import text_of_html
from mailonce.core.sends.send_request import (
    SUBJECT_CHARS_MAX,
    Recipient,
    SendRequest,
    trouble_of_line,
)
from mailonce.errors import MissingError, ParseError, SizeError
from mailonce.send.render import Renderer
from mailonce.send.render_messages import RenderedMail

# Longer HTML is read beside the event loop.
INLINE_CHARS_MAX = 4_000
# Of all mails of a request together, where each recipient has its own.
CONTENT_BYTES_MAX = 64 << 20


class Composer:
    """Makes contents of requests; templates are rendered in another process."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    async def compose(
        self,
        request: SendRequest,
        recipients: Sequence[Recipient],
        template: MailTemplate | None,
        *,
        is_unsubscribable: bool,
    ) -> list[bytes]:
        """Give the content for each recipient; those who get the same share one object.

        Raises: MissingError where there is no such template, TemplateError or ParseError where it
        makes no mail, SizeError where all of them are too large together.
        """
        if request.template is None:
            words = [await self._own_words(request)] * len(recipients)
        else:
            words = await self._rendered(request, recipients, template)
        return _bodies(request, words, is_unsubscribable=is_unsubscribable)

    def compose_at_once(
        self, request: SendRequest, recipients: Sequence[Recipient], *, is_unsubscribable: bool
    ) -> list[bytes] | None:
        """Do the same where nothing must be waited for; None where something must."""
        if request.template is not None or (request.text is None and request.html is not None):
            return None
        words = RenderedMail(subject=request.subject or "", html=request.html, text=request.text)
        several = [words] * len(recipients)
        return _bodies(request, several, is_unsubscribable=is_unsubscribable)

    async def _own_words(self, request: SendRequest) -> RenderedMail:
        text = request.text
        if text is None and request.html is not None:
            is_short = len(request.html) <= INLINE_CHARS_MAX
            text = (
                text_of_html(request.html)
                if is_short
                else await self._renderer.text_of(request.html)
            )
        return RenderedMail(subject=request.subject or "", html=request.html, text=text)

    async def _rendered(
        self,
        request: SendRequest,
        recipients: Sequence[Recipient],
        template: MailTemplate | None,
    ) -> list[RenderedMail]:
        if template is None:
            version = "" if request.template_version is None else f"@{request.template_version}"
            raise MissingError(
                f"there is no template {f'{request.template}{version}'[:100]!r}; "
                "see GET /v1/templates"
            )
        keys = [canonical(request.variables_for(one)) for one in recipients]
        distinct: dict[bytes, Mapping[str, Any]] = {
            key: request.variables_for(one) for key, one in zip(keys, recipients, strict=True)
        }
        mails = await self._renderer.render(
            subject=template.subject,
            html=template.html,
            text=template.text,
            variables=list(distinct.values()),
        )
        for mail in mails:
            trouble = trouble_of_line("subject", mail.subject, SUBJECT_CHARS_MAX)
            trouble = trouble or trouble_of_words(
                subject=mail.subject,
                text=mail.text,
                html=mail.html,
                template=None,
                has_files=bool(request.attachments),
            )
            if trouble is not None:
                raise ParseError(f"{trouble} (the template makes it)")
        by_key = dict(zip(distinct, mails, strict=True))
        return [by_key[key] for key in keys]


def _bodies(
    request: SendRequest, words: Sequence[RenderedMail], *, is_unsubscribable: bool
) -> list[bytes]:
    bodies: dict[int, bytes] = {}
    for one in words:
        if id(one) not in bodies:
            content = _content(request, one, is_unsubscribable=is_unsubscribable)
            bodies[id(one)] = written_content(content)
    if sum(map(len, bodies.values())) > CONTENT_BYTES_MAX:
        raise SizeError(
            f"the mails of this request have more than {CONTENT_BYTES_MAX} bytes together; "
            "send them in several requests"
        )
    return [bodies[id(one)] for one in words]


def _content(request: SendRequest, words: RenderedMail, *, is_unsubscribable: bool) -> MailContent:
    return MailContent(
        from_=request.from_,
        subject=words.subject,
        text=words.text,
        html=words.html,
        reply_to=request.reply_to,
        headers=request.headers,
        attachments=request.attachments,
        tags=request.tags,
        metadata=request.metadata,
        is_unsubscribable=is_unsubscribable,
    )
