"""A template of mails: its words, versioned; the newest version is used unless another is named."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mailonce.core import bounds
from mailonce.errors import ParseError

SUBJECT_CHARS_MAX = 2_000
BODY_CHARS_MAX = 500_000
TEMPLATES_MAX = 1_000
VERSIONS_MAX = 1_000

_REFERENCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTemplate:
    """One version of a template; it never changes."""

    workspace: str
    name: str
    version: int
    subject: str
    html: str | None
    text: str | None
    created_ms: int


def read_reference(text: str) -> tuple[str, int | None]:
    """Read a template's name, and the version where one is named: `welcome` or `welcome@3`.

    Raises: ParseError.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ParseError(
            f"`template` is {text[:80]!r}; write its name, or name@3 for its third version"
        )
    return match[1], None if match[2] is None else int(match[2])


def check_template(*, subject: str, html: str | None, text: str | None) -> None:
    """See that a template has something to say, within limits.

    Raises: ParseError, one sentence that names the field and the fix.
    """
    trouble = next(_troubles(subject, html, text), None)
    if trouble is not None:
        raise ParseError(trouble)


def _troubles(subject: str, html: str | None, text: str | None) -> Iterator[str]:
    if html is None and text is None:
        yield "a template has `html`, `text` or both; give one"
    if not subject.strip():
        yield "`subject` is empty; give one"
    yield from bounds.of_text("subject", subject, SUBJECT_CHARS_MAX)
    yield from bounds.of_text("html", html or "", BODY_CHARS_MAX)
    yield from bounds.of_text("text", text or "", BODY_CHARS_MAX)
