"""Choose what a mail says, and what is attached to it, from its parts.

Which parts are the body is the rule of JMAP (RFC 8621 §4.1.4): alternatives are one text in several
forms, a related part belongs to its root, and inline text in a mixed mail is read on.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.leaf import Leaf, content_id_of, file_name_of, read_leaf
from mailonce.core.mail.mime import tnef
from mailonce.core.mail.mime.file_name import clean_file_name
from mailonce.core.mail.mime.file_type import detect_type, is_misleading
from mailonce.core.mail.mime.flowed_text import unflow
from mailonce.core.mail.mime.parameters import content_type_of
from mailonce.core.mail.mime.part_tree import MailPart
from mailonce.core.mail.problem import MailProblem
from mailonce.core.mail.visible_text import read_visible_text
from mailonce.core.text import UNSTORABLE

TextOrigin = Literal["part", "html", "provider"]
_BODY_TYPES = frozenset({"text/plain", "text/html"})
_LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c\x85]")
_CONTROL = re.compile("[\x01-\x08\x0e-\x1f\x7f]")
# Not printable, says Python, and kept as they are.
_USUAL_SPACES = "\n\t\xa0"


class DigestAttachment(Struct, frozen=True, kw_only=True, gc=False):
    """A file that came with a mail; its name and type are the sender's words, cleaned."""

    name: str | None
    type: str
    content: bytes
    sha256: bytes
    # What the first bytes show.
    detected_type: str | None = None
    content_id: str | None = None
    disposition: Literal["attachment", "inline"] = "attachment"


class MailBody(Struct, frozen=True, kw_only=True, gc=False):
    """What a mail says, in each form that it has."""

    text: str | None
    text_origin: TextOrigin
    html: str | None
    attachments: tuple[DigestAttachment, ...]
    # In the order of the mail, the body's parts included.
    leaves: tuple[Leaf, ...]


@dataclass(slots=True)
class _Choice:
    """Parts sorted into the two forms of the body, and all others."""

    text: list[MailPart] = field(default_factory=list)
    html: list[MailPart] = field(default_factory=list)
    attached: list[MailPart] = field(default_factory=list)


def read_body(root: MailPart, budget: DigestBudget) -> MailBody:
    """Decode all parts, and say which of them are the body."""
    choice = _Choice()
    _sort([root], "mixed", choice, is_alternative=False)
    leaves = {id(part): read_leaf(part, budget) for part in root.leaves()}
    pages = [leaves[id(part)] for part in choice.html if part.type == "text/html"]
    html = _join_html(pages, budget)
    text, origin = _join_text([leaves[id(part)] for part in choice.text], budget)
    attachments: list[DigestAttachment] = []
    for part in choice.attached:
        leaf = leaves[id(part)]
        inside = _read_outlook(leaf, budget)
        if inside is None:
            attachments.append(_attachment(leaf, budget))
            continue
        attachments += _outlook_attachments(inside, budget)
        text = text if text and text.strip() else inside.text and clean_text(inside.text)
        html = html or (inside.html and UNSTORABLE.sub("\ufffd", inside.html))
    is_read = any(part.type == "text/html" for part in choice.text)
    if html is not None and not is_read and not (text and text.strip()):
        text, origin = text_of_html(html, budget), "html"
    return MailBody(
        text=text,
        text_origin=origin,
        html=html,
        attachments=tuple(attachments),
        leaves=tuple(leaves.values()),
    )


def clean_text(text: str) -> str:
    """Make text storable and its line ends LF."""
    if text.isprintable():
        return text
    # The patterns stop at each character; most mail needs no more than this, in a quarter of the
    # time.
    plain = rest = text.replace("\r\n", "\n")
    for char in _USUAL_SPACES:
        rest = rest.replace(char, "")
    if rest.isprintable():
        return plain
    text = _LINE_ENDS.sub("\n", text)
    return _CONTROL.sub("\ufffd", UNSTORABLE.sub("\ufffd", text))


def _sort(parts: Sequence[MailPart], kind: str, choice: _Choice, *, is_alternative: bool) -> None:
    """Sort the children of a multipart whose subtype is `kind`."""
    texts_before, pages_before = len(choice.text), len(choice.html)
    is_alternative = is_alternative or kind == "alternative"
    root = _related_root(parts) if kind == "related" else 0
    for number, part in enumerate(parts):
        if part.children:
            subtype = part.type.partition("/")[2]
            _sort(part.children, subtype, choice, is_alternative=is_alternative)
        elif not _is_body(part, kind, is_first=number == root):
            choice.attached.append(part)
        else:
            is_html = part.type == "text/html"
            if not (is_alternative and is_html):
                choice.text.append(part)
            if not is_alternative or is_html:
                choice.html.append(part)
    if kind == "alternative":
        # Where one form is missing, the other one stands for it.
        if len(choice.text) == texts_before:
            choice.text += choice.html[pages_before:]
        if len(choice.html) == pages_before:
            choice.html += choice.text[texts_before:]


def _is_body(part: MailPart, kind: str, *, is_first: bool) -> bool:
    if part.type not in _BODY_TYPES or part.disposition.word == "attachment":
        return False
    has_name = "filename" in part.disposition.parameters or "name" in part.parameters
    return is_first if kind == "related" else is_first or not has_name


def _related_root(parts: Sequence[MailPart]) -> int:
    """Find the part that the others belong to: HTML, where the first part is a picture."""
    if parts and not parts[0].children and parts[0].type not in _BODY_TYPES:
        for number, part in enumerate(parts):
            if part.type == "text/html":
                return number
    return 0


def _join_html(pages: Sequence[Leaf], budget: DigestBudget) -> str | None:
    if not pages:
        return None
    html = "\n".join(
        UNSTORABLE.sub("\ufffd", page.decoded.text) for page in pages if page.decoded is not None
    )
    html = html.replace("\r\n", "\n")
    if len(html) > budget.limits.html_chars_max or any(page.is_truncated for page in pages):
        budget.note(MailProblem.HTML_TRUNCATED)
        html = html[: budget.limits.html_chars_max]
    return html


def _join_text(leaves: Sequence[Leaf], budget: DigestBudget) -> tuple[str | None, TextOrigin]:
    """Join the texts of a mail; HTML stands for itself only where no text says the same."""
    texts: list[str] = []
    is_written = False
    for leaf in leaves:
        if leaf.decoded is None:
            continue
        if leaf.type == "text/html":
            texts.append(text_of_html(leaf.decoded.text, budget))
            continue
        text = clean_text(leaf.decoded.text)
        if leaf.part.parameters.get("format", "").lower() == "flowed":
            is_deleting = leaf.part.parameters.get("delsp", "").lower() == "yes"
            text = unflow(text, deletes_space=is_deleting)
        is_written = is_written or bool(text.strip())
        texts.append(text)
    if not texts:
        return None, "part"
    if len(texts) > 1:
        texts = ["\n".join(text.rstrip("\n") for text in texts if text.strip())]
    text = texts[0]
    if len(text) > budget.limits.text_chars_max or any(leaf.is_truncated for leaf in leaves):
        budget.note(MailProblem.TEXT_TRUNCATED)
        text = text[: budget.limits.text_chars_max]
    return text, "part" if is_written or not text else "html"


def text_of_html(html: str, budget: DigestBudget) -> str:
    """Give what a person sees of HTML."""
    visible = read_visible_text(budget.take_html(html))
    if visible.is_truncated:
        budget.note(MailProblem.TEXT_TRUNCATED)
    return clean_text(visible.text)


def _attachment(leaf: Leaf, budget: DigestBudget) -> DigestAttachment:
    part = leaf.part
    detected = detect_type(leaf.content)
    if is_misleading(leaf.type, detected):
        budget.note(MailProblem.WRONG_TYPE)
    if leaf.type == "message/partial":
        budget.note(MailProblem.PARTIAL_MESSAGE)
    content_id = content_id_of(part, budget)
    is_inline = part.disposition.word == "inline" or (
        content_id is not None and part.disposition.word != "attachment"
    )
    return DigestAttachment(
        name=file_name_of(part, budget),
        type=leaf.type,
        detected_type=detected,
        content=leaf.content,
        sha256=leaf.sha256,
        content_id=content_id,
        disposition="inline" if is_inline else "attachment",
    )


def _read_outlook(leaf: Leaf, budget: DigestBudget) -> tnef.TnefContent | None:
    part = leaf.part
    name = part.disposition.parameters.get("filename") or part.parameters.get("name") or ""
    if leaf.type not in tnef.TYPES and name.lower() != "winmail.dat":
        return None
    return tnef.read_tnef(leaf.content, budget)


def _outlook_attachments(
    inside: tnef.TnefContent, budget: DigestBudget
) -> Iterator[DigestAttachment]:
    for one in inside.attachments:
        if not budget.take_part():
            return
        detected = detect_type(one.content)
        type_ = content_type_of(one.type or "") or detected or "application/octet-stream"
        if is_misleading(type_, detected):
            budget.note(MailProblem.WRONG_TYPE)
        yield DigestAttachment(
            name=clean_file_name(one.name, budget) if one.name else None,
            type=type_,
            detected_type=detected,
            content=one.content,
            sha256=sha256(one.content).digest(),
            content_id=clean_text(one.content_id)[:250] if one.content_id else None,
        )
