"""A mail that is owed: under which key the outbox has it, and how it is written down."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from mailonce.core.sends.mail_address import trouble_of_address
from mailonce.core.sends.mail_template import read_reference
from mailonce.core.sends.mail_words import trouble_of_words
from mailonce.core.sends.send_key import derived_key, given_key
from mailonce.errors import ClashError, ParseError

# The topic of mails in the outbox.
SEND = "mailonce.send"

Recipients = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class OwedSend:
    """A mail as it is owed."""

    # Unique in the outbox: the same mail is owed once.
    effect_key: str
    # As the ledger knows it: see `GET /v1/sends?key=`.
    key: str
    body: bytes


def owe_send(to: Recipients, *, from_: str, key: str | None, fields: Mapping[str, Any]) -> OwedSend:
    """Write down a mail, of fields that JSON can hold; where it has no `key`, its cause makes one.

    Raises: ParseError where it cannot be sent like this.
    """
    several = [to] if isinstance(to, str | Mapping) else list(to)
    if not several:
        raise ParseError("`to` is empty; name one recipient or more")
    for field, one in (("from_", from_), *(("to", one) for one in several)):
        _check_address(field, one)
    _check_words(fields)
    if key is not None:
        send_key, place = given_key(key).text, f"key|{key}"
    else:
        template = fields.get("template")
        name = "" if template is None else read_reference(template)[0]
        stream = fields.get("stream", "")
        cause = fields["cause_id"]
        send_key = derived_key(cause_id=cause, stream=stream, template=name).text
        # Further recipients of one cause are further mails.
        addresses = sorted(_address(one) for one in several)
        place = f"cause|{send_key}|{_digest(addresses)}"
    mail = {"to": to if isinstance(to, str | Mapping) else several, "from_": from_, "key": key}
    try:
        body = json.dumps({**mail, "fields": dict(fields)}, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise ParseError(f"the mail cannot be written as JSON: {error}; correct it") from error
    return OwedSend(f"{SEND}|{_digest(place)}", send_key, body)


def read_send(body: bytes) -> tuple[Recipients, dict[str, Any]]:
    """Read what was owed: to whom, and what a client's `send` is given beside."""
    mail = json.loads(body)
    to: Recipients = mail["to"]
    return to, {"from_": mail["from_"], "key": mail["key"], **mail["fields"]}


def check_same(owed: OwedSend, stands: bytes | None) -> None:
    """See that a key which is owed already stands for the same mail.

    Raises: ClashError.
    """
    if stands is not None and bytes(stands) != owed.body:
        raise ClashError(
            f"send key {owed.key[:100]!r} is that of another mail already; use a new key for a new "
            "mail"
        )


def _check_address(field: str, given: object) -> None:
    """Refuse now what the server would refuse when your transaction has long been committed."""
    if not isinstance(given, str | Mapping):
        raise ParseError(f"`{field}` has a {type(given).__name__}; give an address as text")
    address = _written_address(given)
    trouble = trouble_of_address(address)
    if trouble is not None:
        raise ParseError(f"`{field}` has {address[:80]!r}, {trouble}")


def _check_words(fields: Mapping[str, Any]) -> None:
    own = {name: fields.get(name) for name in ("subject", "text", "html", "template")}
    for name, value in own.items():
        if not isinstance(value, str | None):
            raise ParseError(f"`{name}` has a {type(value).__name__}; give text")
    trouble = trouble_of_words(**own, has_files=bool(fields.get("attachments")))
    if trouble is not None:
        raise ParseError(trouble)


def _address(recipient: str | Mapping[str, Any]) -> str:
    return _written_address(recipient).casefold()


def _written_address(given: str | Mapping[str, Any]) -> str:
    text = given if isinstance(given, str) else str(given.get("address", ""))
    return (
        text.rpartition("<")[2].rstrip("> ") if text.rstrip(" ").endswith(">") else text.strip(" ")
    )


def _digest(what: object) -> str:
    return sha256(json.dumps(what).encode()).hexdigest()
