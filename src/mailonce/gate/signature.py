"""Signatures, which the gate checks before it looks anything up.

Each function makes a value for `Policy.verify`. Several secrets stand side by side during a
rotation.
"""

from collections.abc import Callable, Iterable

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.one_line import is_one_line
from mailonce.core.signatures import standard_webhooks as standard
from mailonce.core.signatures import timed_signature
from mailonce.errors import ConfigError
from mailonce.gate.rules.http import Request
from mailonce.gate.rules.keys import KEY_HEADERS, BadKey, key_of
from mailonce.gate.rules.policy import Verify, makes_verify

FRESHNESS_S = 300
MAILWEBHOOK_HEADER = "x-mailwebhook-signature"


@makes_verify
def standard_webhooks(
    *secrets: str, public_keys: Iterable[str] = (), freshness_s: int = FRESHNESS_S
) -> Verify:
    """Check https://www.standardwebhooks.com: `whsec_…` secrets, `whpk_…` public keys.

    The message id is signed, the key headers are not: `Policy(key=webhook_id)` trusts the former.

    Raises: ConfigError where a secret could never work.
    """
    source = _source(secrets, tuple(public_keys), freshness_s)
    fault = standard.fault_of(source)
    if fault is not None:
        what = fault.partition(";")[0]
        raise ConfigError(f"{what}; copy the secret whole, as its sender shows it")
    return _verify(lambda arrival: standard.verify(arrival, source, {}))


@makes_verify
def mailonce(
    *secrets: str, public_keys: Iterable[str] = (), freshness_s: int = FRESHNESS_S
) -> Verify:
    """Check a delivery of mailonce: Standard Webhooks, whose signed id is the key as well.

    Raises: ConfigError where a secret could never work.
    """
    signed = standard_webhooks(*secrets, public_keys=public_keys, freshness_s=freshness_s)

    def verify(request: Request, now_ms: int) -> str | None:
        reason = signed(request, now_ms)
        if reason is not None:
            return reason
        given = any(True for name in KEY_HEADERS for _ in request.values(name))
        key = key_of(request, chars_max=256)
        if given and (isinstance(key, BadKey) or key != webhook_id(request)):
            return "key is not the signed one"
        return None

    return verify


@makes_verify
def mailwebhook(
    *secrets: str, header: str = MAILWEBHOOK_HEADER, freshness_s: int = FRESHNESS_S
) -> Verify:
    """Check MailWebhook's `t=…, kid=…, v1=…` header, over the time and the raw body.

    Raises: ConfigError without a secret.
    """
    source = _source(secrets, (), freshness_s)
    name = header.lower()
    return _verify(
        lambda arrival: timed_signature.verify(arrival, source, header=name, window_s=freshness_s)
    )


def webhook_id(request: Request) -> str | None:
    """Read the key from the signed message id of Standard Webhooks: for `Policy.key`."""
    return standard.message_id_of(_arrival(request, 0))


def _verify(check: Callable[[Arrival], Verdict]) -> Verify:
    def verify(request: Request, now_ms: int) -> str | None:
        verdict = check(_arrival(request, now_ms))
        return verdict.reason if isinstance(verdict, Refused) else None

    return verify


def _arrival(request: Request, now_ms: int) -> Arrival:
    """Of a repeated header the last value counts, for the signature and for the key alike."""
    headers = {name.lower(): value.strip() for name, value in request.headers}
    return Arrival(method=request.method, headers=headers, body=request.body, now_ms=now_ms)


def _source(secrets: tuple[str, ...], public_keys: tuple[str, ...], freshness_s: int) -> Source:
    if not any(secrets) and not public_keys:
        raise ConfigError("a signature needs a secret or a public key; give one")
    for secret in secrets:
        if isinstance(secret, list | tuple | set):
            raise ConfigError(
                f"a secret is a text, and not {type(secret).__name__}; write several one after the "
                "other, as in `mailonce(new, old)`"
            )
        if not isinstance(secret, str):
            raise ConfigError(
                f"a secret is a text, and not {type(secret).__name__}; give it as its sender shows "
                "it (bytes: `.decode()`)"
            )
        if not is_one_line(secret):
            raise ConfigError(
                "a secret has a line break, which a sender's never has; take it out (of a file: "
                "`.strip()`), and write several one after the other, as in `mailonce(new, old)`"
            )
    return Source(
        id="gate",
        workspace="gate",
        name="gate",
        provider="gate",
        account="gate",
        secrets=secrets,
        public_keys=public_keys,
        freshness_s=freshness_s,
    )
