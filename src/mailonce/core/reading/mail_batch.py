"""Read the mails of a batch so that one which is broken does not cost the others."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct

from mailonce.core import json_text
from mailonce.core.json_text import Unreadable
from mailonce.core.mail.incoming import IncomingMail
from mailonce.errors import ParseError

Element = dict[str, Any]


class MailBatch(Struct, frozen=True, gc=False):
    """The elements that could be read, the mails among them, and what was set aside."""

    elements: tuple[Element, ...]
    mails: tuple[IncomingMail, ...]
    unreadable: tuple[Unreadable, ...]


def read_mails(
    elements: Sequence[Element],
    unreadable: Sequence[Unreadable],
    parse_mail: Callable[[Element], IncomingMail | None],
    *,
    alone: Callable[[Element], Mapping[str, Any]] = lambda element: element,
) -> MailBatch:
    """Read the mail of each element that has one; `unreadable` are those that are none at all.

    `alone` gives an element the form in which its provider's `parse` would take it by itself, so
    that it can be tried again.
    """
    taken = {one.position for one in unreadable}
    places = (place for place in count() if place not in taken)
    kept: list[Element] = []
    mails: list[IncomingMail] = []
    aside = list(unreadable)
    for place, element in zip(places, elements, strict=False):
        try:
            mail = parse_mail(element)
        except ParseError as error:
            aside.append(Unreadable(place, str(error), json_text.canonical(alone(element))))
            continue
        kept.append(element)
        if mail is not None:
            mails.append(mail)
    aside.sort(key=lambda one: one.position)
    return MailBatch(tuple(kept), tuple(mails), tuple(aside))
