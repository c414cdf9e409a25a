"""Authenticate mail: our own SPF, DKIM and DMARC, where nobody whom we trust has checked before.

It runs while a mail is read, never at the door: a slow name server delays a message, and refuses
none. What the DNS does not answer in time is `temperror`. Whatever a sender puts into a mail or its
DNS is bounded here: signatures, lookups, seconds, the size of keys.

The functions block, on the DNS and on arithmetic: call them on a thread.
"""

import logging
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, cast, get_args

from mailonce.core.extraction.host_name import registrable_domain
from mailonce.core.mail.address import read_domain
from mailonce.core.mail.authentication_results import read_authentication
from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.digest import LIMITS
from mailonce.core.mail.dkim_body import canonical_body
from mailonce.core.mail.dmarc import judge_dmarc, read_policy
from mailonce.core.mail.dns_records import DnsLookup, RecordType
from mailonce.core.mail.headers import read_headers
from mailonce.core.mail.incoming import (
    Authentication,
    AuthenticationCheck,
    AuthenticationResult,
    MailEnvelope,
)
from mailonce.core.mail.mime.header_block import HeaderFields, find_header_end, read_header
from mailonce.errors import UnavailableError

SIGNATURES_MAX = 5
HEADER_BYTES_MAX = 256 << 10
HEADER_LINES_MAX = 1_000
SIGNATURE_BYTES_MAX = 4_096
# A larger key makes whoever checks it work, and nobody safer; RSA with 4096 bits takes 740 bytes.
KEY_BYTES_MAX = 1_500
DETAIL_CHARS_MAX = 200

_RESULTS = frozenset(get_args(AuthenticationResult))
_SPACE = re.compile(r"\s+")
_SPACES = re.compile(rb"\s+")
# Folding needs a few; the library's own patterns take quadratic time over more.
_MANY_SPACES = re.compile(rb"\s{100}")
_SIGNATURE = re.compile(rb"(?im)^dkim-signature[ \t]{0,10}:")
# The library would log what stands in mails.
_SILENT = logging.Logger("dkim", level=logging.CRITICAL + 1)  # noqa: LOG001 - in no hierarchy


def authenticate(
    raw: bytes, envelope: MailEnvelope, ask: DnsLookup, *, trusted_servers: Sequence[str] = ()
) -> Authentication | None:
    """Check who sent a mail; None where a trusted server has done so, or it has no header."""
    end, _ = find_header_end(raw, 0, min(len(raw), HEADER_BYTES_MAX))
    fields, _ = read_header(raw[:end], DigestBudget(LIMITS))
    if not fields.fields or read_authentication(fields, trusted_servers) is not None:
        return None
    spf = check_spf(envelope, ask)
    dkim = check_dkim(raw, ask)
    dmarc = check_dmarc(fields, spf, dkim, ask)
    return Authentication(spf=spf, dkim=dkim, dmarc=dmarc, checked_by="self")


def check_spf(envelope: MailEnvelope, ask: DnsLookup) -> AuthenticationCheck | None:
    """Check the address that connected; None where we do not know it, or its user logged in."""
    if envelope.client_ip is None or envelope.user is not None:
        return None
    sender, helo = envelope.mail_from or "", read_domain(envelope.helo or "") or ""
    domain = read_domain(sender.rpartition("@")[2]) if sender else helo
    if not domain:
        return AuthenticationCheck(result="none")
    try:
        result, _, reason = _spf_query(envelope.client_ip, sender, helo or domain, ask).check()
    except Exception as error:  # noqa: BLE001 - a library that trips over a record is not our end
        result, reason = "permerror", _unchecked(error)
    # The reason of a failure is text of the sender's domain.
    detail = _plain(reason) if result in {"temperror", "permerror"} else None
    return AuthenticationCheck(result=_result(result), domain=domain, detail=detail)


def check_dkim(raw: bytes, ask: DnsLookup) -> tuple[AuthenticationCheck, ...]:
    """Check the signatures of a mail, the topmost ones of many."""
    import dkim  # noqa: PLC0415 - only who checks senders pays for the import

    end, start = find_header_end(raw, 0, len(raw))
    if not _SIGNATURE.search(raw, 0, min(end, HEADER_BYTES_MAX)):
        return ()
    if end > HEADER_BYTES_MAX or raw.count(b"\n", 0, end) > HEADER_LINES_MAX:
        return (AuthenticationCheck(result="neutral", detail="the header is too large"),)
    try:
        # The library gets the header alone: it is slow with large bodies, and very slow with some.
        mail = dkim.DKIM(raw[:end].rstrip(b"\r\n") + b"\r\n\r\n", logger=_SILENT)
    except Exception as error:  # noqa: BLE001 - a library that trips over a mail is not our end
        return (AuthenticationCheck(result="permerror", detail=_unchecked(error)),)
    body = _SignedBody(raw[start:])
    signatures = [value for name, value in mail.headers if name.lower() == b"dkim-signature"]
    checks = []
    for number, signature in enumerate(signatures[:SIGNATURES_MAX]):
        mail.signature_fields, mail.keysize = {}, 0
        is_strange = len(signature) > SIGNATURE_BYTES_MAX or _MANY_SPACES.search(signature)
        result, detail = (
            ("permerror", "the signature is too long")
            if is_strange
            else _dkim_result(mail, number, body, ask)
        )
        domain = read_domain(mail.signature_fields.get(b"d", b"").decode("utf-8", "replace"))
        checks.append(AuthenticationCheck(result=result, domain=domain, detail=detail))
    return tuple(checks)


class _SignedBody:
    """The hash of a body, in the form that a signature asks for."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._hashes: dict[bool, bytes] = {}

    def is_hashed_in(self, fields: Mapping[bytes, bytes]) -> bool:
        """Say whether a signature has the hash of this body."""
        is_relaxed = fields.get(b"c", b"").partition(b"/")[2].strip() == b"relaxed"
        if is_relaxed not in self._hashes:
            form = canonical_body(self._body, is_relaxed=is_relaxed)
            self._hashes[is_relaxed] = sha256(form).digest()
        return _SPACES.sub(b"", fields[b"bh"]) == b64encode(self._hashes[is_relaxed])


def check_dmarc(
    fields: HeaderFields,
    spf: AuthenticationCheck | None,
    dkim: Sequence[AuthenticationCheck],
    ask: DnsLookup,
) -> AuthenticationCheck:
    """Check whether what was proven is about the domain in `From`, by that domain's own policy."""
    senders = read_headers(fields, DigestBudget(LIMITS)).from_
    if len(fields.all("from")) != 1 or len(senders) != 1:
        return AuthenticationCheck(result="permerror", detail="there is not one sender")
    domain = read_domain(senders[0].address.rpartition("@")[2])
    if not domain:
        return AuthenticationCheck(result="permerror", detail="the sender has no domain")
    try:
        policy = read_policy(_texts(ask, f"_dmarc.{domain}"))
        organization = registrable_domain(domain)
        is_inherited = policy is None and organization not in {"", domain}
        if is_inherited:
            policy = read_policy(_texts(ask, f"_dmarc.{organization}"))
    except UnavailableError as error:
        return AuthenticationCheck(result="temperror", domain=domain, detail=_plain(str(error)))
    if policy is None:
        return AuthenticationCheck(result="none", domain=domain)
    return judge_dmarc(
        domain,
        policy,
        spf=spf,
        dkim=dkim,
        organization_of=registrable_domain,
        is_inherited=is_inherited,
    )


def _dkim_result(
    mail: Any, number: int, body: _SignedBody, ask: DnsLookup
) -> tuple[AuthenticationResult, str | None]:
    import dkim  # noqa: PLC0415

    record = b""

    def find_key(name: bytes, **_: object) -> bytes | None:
        nonlocal record
        record = next(iter(_texts(ask, name.decode("ascii", "replace"))), b"")
        return record if len(record) <= KEY_BYTES_MAX else None

    try:
        fields, signed, headers = mail.verify_headerprep(number)
        if not fields[b"a"].endswith(b"-sha256"):
            return "permerror", "its algorithm is not safe"
        if b"from" not in signed:
            return "permerror", "it does not sign the sender"
        if b"l" in fields:
            # Whatever stands behind the signed part is anybody's.
            return "neutral", "it signs only a part of the body"
        if not body.is_hashed_in(fields):
            return "fail", "the body is not the one that was signed"
        rest = {name: value for name, value in fields.items() if name != b"bh"}
        is_valid = mail.verify_sig(rest, signed, headers[number], find_key)
    except UnavailableError as error:
        return "temperror", _plain(str(error))
    except dkim.DKIMException as error:
        return "permerror", _plain(str(error).partition("(")[0])
    except Exception as error:  # noqa: BLE001 - likewise
        return "permerror", _unchecked(error)
    if is_valid:
        return "pass", None
    if not mail.keysize:
        # The library says no more than that it found no key that it could read.
        return "permerror", "there is no key" if not record else "the key cannot be used"
    return "fail", "the signature is not that of these headers"


def _spf_query(client_ip: str, sender: str, helo: str, ask: DnsLookup) -> Any:
    import spf  # noqa: PLC0415

    class Query(spf.query):  # type: ignore[misc]
        """Asks our resolver, which has its own limits of time."""

        def dns(
            self,
            name: str,
            qtype: str,
            cnames: object = None,
            ignore_void: bool = False,  # noqa: FBT001, FBT002
        ) -> list[Any]:
            del cnames
            try:
                rows = ask(str(name), cast("RecordType", qtype))
            except UnavailableError as error:
                raise spf.TempError(str(error)) from error
            if not rows and not ignore_void:
                self.void_lookups += 1
                if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                    raise spf.PermError("too many lookups found nothing")
            match qtype:
                case "TXT":
                    return [(row.text,) for row in rows]
                case "MX":
                    return [(row.preference, row.value) for row in rows]
                case _:
                    return [row.value for row in rows]

    return Query(i=client_ip, s=sender, h=helo)


def _texts(ask: DnsLookup, name: str) -> list[bytes]:
    return [row.text for row in ask(name.rstrip("."), "TXT")]


def _result(word: str) -> AuthenticationResult:
    return cast("AuthenticationResult", word) if word in _RESULTS else "unknown"


def _unchecked(error: Exception) -> str:
    return f"it cannot be checked ({type(error).__name__})"


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text.encode("ascii", "replace").decode()).strip()[:DETAIL_CHARS_MAX]
