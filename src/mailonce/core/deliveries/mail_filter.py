"""Filters of a route over mail that came in, and the attachments that it is sent with it.

A route that filters by mail takes no other events. An attachment is sent as a link that expires;
small ones stand in the body as well, where the route asks for it.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class FiltersMail(Protocol):
    """The settings of a route that concern mail; empty ones let every mail through."""

    @property
    def senders(self) -> Sequence[str]:
        """Addresses, or @domain: one of them must be the sender's."""

    @property
    def subject_contains(self) -> Sequence[str]:
        """Words: one of them must stand in the subject, in whatever case."""

    @property
    def inboxes(self) -> Sequence[str]:
        """Ids or addresses of inboxes: one of them must have got the mail."""

    @property
    def has_attachments(self) -> bool | None:
        """Whether there must be some, or none."""


def takes_mail(route: FiltersMail, message: Mapping[str, Any] | None) -> bool:
    """Say whether a mail passes; None where the event brings none."""
    if message is None:
        is_asked = route.senders or route.subject_contains or route.inboxes
        return not is_asked and route.has_attachments is None
    if route.senders and not _is_from(message, route.senders):
        return False
    subject = str(message.get("subject") or "").casefold()
    words = route.subject_contains
    if words and not any(word.casefold() in subject for word in words):
        return False
    if route.inboxes and not _is_in(message, route.inboxes):
        return False
    return route.has_attachments in {None, bool(message.get("attachments"))}


def with_files(
    shown: Mapping[str, Any], files: Mapping[str, bytes], *, bytes_max: int
) -> Mapping[str, Any]:
    """Put the content of attachments into a mail, as base64, as far as `bytes_max` goes.

    Those that find no room are still there as links.
    """
    message = shown.get("message")
    if message is None or not files or bytes_max <= 0:
        return shown
    left = bytes_max
    attachments = []
    for attachment in message["attachments"]:
        content = files.get(attachment["id"])
        if content is not None and len(content) <= left:
            left -= len(content)
            attachments.append({**attachment, "content": b64encode(content).decode()})
        else:
            attachments.append(attachment)
    return {**shown, "message": {**message, "attachments": attachments}}


def _is_from(message: Mapping[str, Any], senders: Sequence[str]) -> bool:
    address = str((message.get("from") or {}).get("address") or "").lower()
    domain = "@" + address.rpartition("@")[2]
    return any(address == sender.lower() or domain == sender.lower() for sender in senders)


def _is_in(message: Mapping[str, Any], inboxes: Sequence[str]) -> bool:
    names = {str(message.get("inbox")), str(message.get("address"))}
    return not names.isdisjoint(inboxes)
