"""The token in a link that unsubscribes: sealed, so that it can be neither read nor made up."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec
from msgspec import Struct

from mailonce.core.signatures.sealing import NONCE_BYTES, Sealer
from mailonce.errors import VerifyError

_PLACE = "unsubscribe"
TOKEN_CHARS_MAX = 2_000


class Unsubscription(Struct, frozen=True, array_like=True):
    """Whose mail of which stream is meant, and by which send the link came."""

    workspace: str
    address: str
    stream: str
    send: bytes


_READ = msgspec.msgpack.Decoder(Unsubscription)


def token_of(sealer: Sealer, unsubscription: Unsubscription) -> str:
    """Make the token of a link; the same each time, so that a mail's bytes stay the same."""
    raw = msgspec.msgpack.encode(unsubscription)
    # The nonce is a hash of what is sealed: it repeats only where everything else does.
    nonce = sha256(b"unsubscribe\0" + raw).digest()[:NONCE_BYTES]
    return urlsafe_b64encode(sealer.seal(raw, place=_PLACE, nonce=nonce)).decode().rstrip("=")


def read_token(sealer: Sealer, token: str) -> Unsubscription:
    """Read the token of a link.

    Raises: VerifyError where it is not one of ours.
    """
    refused = VerifyError("this link is not one that we sent; use the link in the mail")
    if len(token) > TOKEN_CHARS_MAX or not token.isascii():
        raise refused
    try:
        sealed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError as error:
        raise refused from error
    raw = sealer.try_open(sealed, place=_PLACE)
    if raw is None:
        raise refused
    return _READ.decode(raw)
