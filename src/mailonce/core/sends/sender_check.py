"""Whether a sender can work: what its provider needs, and what a request can hold."""

import re
from collections.abc import Iterator, Mapping

from mailonce.core import bounds
from mailonce.core.empty_secret import is_empty
from mailonce.core.nearest_name import did_you_mean
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import Sending

OPTIONS_BYTES_MAX = 20_000
WAITS_MAX = 50
# By field: how many values, and how many characters in each.
_LISTS: Mapping[str, tuple[int, int]] = {"secrets": (5, 4_000)}
_TEXTS: Mapping[str, int] = {
    "name": bounds.NAME_CHARS_MAX,
    "username": 500,
    "password": 4_000,
    "host": 253,
    "region": 50,
    "domain": 253,
    "endpoint": 500,
}
# A credential stands in a header or a line of SMTP, which it must not end.
_PRINTABLE = re.compile(r"[!-~]*")
_HOST = re.compile(r"[A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*")
_ENDPOINT = re.compile(r"(?:https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?)?")
_NAMES = {"secrets": "secret"}


def troubles_of_sender(sender: Sender, sending: Sending) -> Iterator[str]:
    """Say in one sentence each which setting keeps a sender from working, and what to do."""
    for name in sending.needs:
        given = getattr(sender, name)
        if not given or (isinstance(given, tuple) and any(map(is_empty, given))):
            yield f"{sending.title} needs `{_NAMES.get(name, name)}`; add it"
    for name, chars_max in _TEXTS.items():
        yield from bounds.of_text(name, getattr(sender, name), chars_max)
    yield from bounds.of_lists(sender, _LISTS)
    yield from bounds.of_json("options", dict(sender.options), OPTIONS_BYTES_MAX)
    for name in ("secrets", "username", "domain", "region"):
        value = getattr(sender, name)
        texts = value if isinstance(value, tuple) else (value,)
        if not all(map(_PRINTABLE.fullmatch, texts)):
            shown = _NAMES.get(name, name)
            yield f"`{shown}` has a space, a line break or what is not ASCII; correct it"
    if any(ord(one) < 32 or ord(one) == 127 for one in sender.password):
        yield "`password` has a line break or control character; correct it"
    if not _HOST.fullmatch(sender.host):
        yield "`host` must be a name or an address, without a port or a path"
    if not _ENDPOINT.fullmatch(sender.endpoint):
        yield "`endpoint` must be a URL such as https://api.example.com, without a query"
    if len(sender.waits_s) > WAITS_MAX:
        yield f"`waits_s` has more than {WAITS_MAX} waits; take some away"
    strange = sorted(set(sender.options) - set(sending.options))
    if strange:
        listed = f"it has {', '.join(sending.options) or 'none'}"
        advice = did_you_mean(strange[0], sending.options, otherwise=listed)
        yield f"{sending.title} has no option {strange[0][:50]!r}; {advice}"
    own = sending.check(sender)
    if own is not None:
        yield own
