"""HMAC signatures of generic senders, described by a source's options: see OPTIONS."""

import hmac
from base64 import b64decode
from binascii import Error as Base64Error
from binascii import unhexlify
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mailonce.core import bounds
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.empty_secret import is_empty
from mailonce.core.reading import mapping, values
from mailonce.core.signatures import hmac_signature

TEMPLATES = ("{body}", "{ts}.{body}", "{id}.{ts}.{body}", "v0:{ts}:{body}")
OPTIONS: Mapping[str, str] = {
    "header": "the header that carries the signature (required)",
    "prefix": "what stands before the signature there, such as `sha256=`",
    "template": f"what is signed: one of {', '.join(f'`{one}`' for one in TEMPLATES)}",
    "timestamp_header": "the header that `{ts}` is read from",
    "id_header": "the header that `{id}` is read from",
    "encoding": "of the signature: `hex` (default) or `base64`",
    "key_encoding": "of the secret: `utf8` (default), `base64` or `hex`",
    "algorithm": "`sha256` (default), `sha1` or `sha512`",
}
# Counts only where the template has a timestamp.
FRESHNESS_S = 300
ALGORITHMS = ("sha256", "sha1", "sha512")
DECODERS: Mapping[str, Callable[[str], bytes]] = {
    "hex": unhexlify,
    "base64": lambda text: b64decode(text, validate=True),
}
KEY_DECODERS: Mapping[str, Callable[[str], bytes]] = {
    "utf8": lambda text: text.encode("utf-8", "replace"),
    **DECODERS,
}
MISCONFIGURED = Refused("source is not configured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a sender signs: the options of its source, read."""

    header: str
    prefix: str
    template: str
    timestamp_header: str
    id_header: str
    encoding: str
    key_encoding: str
    algorithm: str


def form_of(options: Mapping[str, Any]) -> Form:
    """Read the options that say how the sender signs; `fault_of` says whether they can work."""
    return Form(
        header=_word(options, "header").lower(),
        prefix=_word(options, "prefix"),
        template=_word(options, "template", TEMPLATES[0]),
        timestamp_header=_word(options, "timestamp_header").lower(),
        id_header=_word(options, "id_header").lower(),
        encoding=_word(options, "encoding", "hex"),
        key_encoding=_word(options, "key_encoding", "utf8"),
        algorithm=_word(options, "algorithm", ALGORITHMS[0]),
    )


def fault_of(form: Form) -> str | None:
    """Say in one sentence which option cannot work, or None."""
    if not bounds.HEADER_NAME.fullmatch(form.header):
        return "option 'header' is missing; name the header that carries the signature"
    for option, value, choices in (
        ("template", form.template, TEMPLATES),
        ("encoding", form.encoding, tuple(DECODERS)),
        ("key_encoding", form.key_encoding, tuple(KEY_DECODERS)),
        ("algorithm", form.algorithm, ALGORITHMS),
    ):
        if value not in choices:
            return f"option {option!r} is {value!r}; use one of {', '.join(choices)}"
    if "{ts}" in form.template and not form.timestamp_header:
        return f"option 'timestamp_header' is missing; the template {form.template!r} needs it"
    if "{id}" in form.template and not form.id_header:
        return f"option 'id_header' is missing; the template {form.template!r} needs it"
    return None


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature against each of the source's secrets."""
    del keys
    window_s = FRESHNESS_S if source.freshness_s is None else source.freshness_s
    form = form_of(source.options)
    if fault_of(form) is not None:
        return MISCONFIGURED
    signature = arrival.headers.get(form.header)
    if not signature:
        return hmac_signature.MISSING
    signed = _signed(arrival, form, window_s)
    if isinstance(signed, Refused):
        return signed
    if not signature.startswith(form.prefix):
        return hmac_signature.WRONG
    given = _decoded(DECODERS[form.encoding], signature[len(form.prefix) :])
    for secret in source.secrets:
        key = _decoded(KEY_DECODERS[form.key_encoding], secret)
        if not is_empty(key) and hmac.compare_digest(
            hmac.digest(key, signed, form.algorithm), given
        ):
            return Verified()
    return hmac_signature.WRONG


def delivery_id(arrival: Arrival, options: Mapping[str, Any]) -> str | None:
    """Give the sender's id of this delivery; one that is not signed could be anybody's."""
    form = form_of(options)
    if "{id}" not in form.template:
        return None
    return values.text_of(arrival.headers.get(form.id_header), 256)


def check(source: Source) -> str | None:
    """Name the option or secret that cannot work, of those that sign and of those that map."""
    return _fault_of_source(source) or mapping.fault_of(source.options)


def _fault_of_source(source: Source) -> str | None:
    if not source.is_signed:
        return None
    form = form_of(source.options)
    fault = fault_of(form)
    if fault is not None:
        return fault
    if not source.secrets:
        return "HMAC needs 'secret': the key that the sender signs with"
    if any(is_empty(_decoded(KEY_DECODERS[form.key_encoding], one)) for one in source.secrets):
        return f"'secret' is not {form.key_encoding}; correct it or the option 'key_encoding'"
    return None


def _signed(arrival: Arrival, form: Form, window_s: int | None) -> bytes | Refused:
    """Put together what the sender signed, or say why it cannot have been."""
    timestamp = arrival.headers.get(form.timestamp_header, "")
    id_ = arrival.headers.get(form.id_header, "")
    if "{ts}" in form.template:
        if not timestamp:
            return hmac_signature.MISSING
        seconds = hmac_signature.seconds_of(timestamp)
        if seconds is None:
            return hmac_signature.NOT_NUMERIC
        if not hmac_signature.is_fresh(seconds, now_ms=arrival.now_ms, window_s=window_s):
            return hmac_signature.STALE
    if "{id}" in form.template and not hmac_signature.PLAIN_ID.fullmatch(id_):
        return hmac_signature.BAD_ID if id_ else hmac_signature.MISSING
    # The body is joined as bytes, and last: nothing in it can pass for a placeholder.
    head = form.template.removesuffix("{body}").replace("{ts}", timestamp).replace("{id}", id_)
    return head.encode() + arrival.body


def _decoded(decode: Callable[[str], bytes], text: str) -> bytes:
    try:
        return decode(text)
    except (Base64Error, ValueError):
        return b""


def _word(options: Mapping[str, Any], name: str, default: str = "") -> str:
    return values.word_of(options.get(name, default))
