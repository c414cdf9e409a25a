"""Keys for tests: the same for the same seed, so that both sides of a test can know them.

Whoever knows the seed has the keys. They are for tests, and for nothing else.
"""

import secrets
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from math import gcd
from random import Random

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

RSA_BITS = 2048
RSA_EXPONENT = 65537
# A composite of this size passes even one round with a chance below 2^-80.
PRIME_ROUNDS = 8
SMALL_PRIMES = tuple(n for n in range(3, 1000, 2) if all(n % d for d in range(3, n, 2)))


class SimulatorKeys:
    """The keys of one simulator."""

    def __init__(self, seed: str | None, owner: str) -> None:
        self._seed = secrets.token_hex(32) if seed is None else seed
        self._by_chance = seed is None
        self._owner = owner

    def bytes(self, label: str = "secret") -> "bytes":
        """Give 32 bytes of secret; another label gives others."""
        return sha256(f"{self._owner}/{label}/{self._seed}".encode()).digest()

    def text(self, label: str = "secret") -> str:
        """Give a secret of 32 hex digits."""
        return self.bytes(label).hex()[:32]

    def base64(self, label: str = "secret") -> str:
        """Give the 32 bytes as text."""
        return b64encode(self.bytes(label)).decode()

    def p256(self) -> ec.EllipticCurvePrivateKey:
        return _p256(self.bytes("p256"))

    def ed25519(self) -> ed25519.Ed25519PrivateKey:
        return ed25519.Ed25519PrivateKey.from_private_bytes(self.bytes("ed25519"))

    def rsa(self, label: str = "rsa") -> rsa.RSAPrivateKey:
        return _rsa(self.bytes(label), by_chance=self._by_chance)


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_der(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    """Show a public key as the base64 of its DER."""
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(der).decode()


@lru_cache(maxsize=16)
def _p256(seed: bytes) -> ec.EllipticCurvePrivateKey:
    # The order of the curve is just below 2^256; one bit less is always below it.
    return ec.derive_private_key((int.from_bytes(seed) >> 1) + 1, ec.SECP256R1())


@lru_cache(maxsize=16)
def _rsa(seed: bytes, *, by_chance: bool) -> rsa.RSAPrivateKey:
    """Make an RSA key from a seed, which the library does not offer."""
    if by_chance:
        return rsa.generate_private_key(RSA_EXPONENT, RSA_BITS)
    rng = Random(seed)  # noqa: S311 - repeatable is what it is for
    p = _prime(rng.getrandbits, rng.randrange)
    q = _prime(rng.getrandbits, rng.randrange)
    d = pow(RSA_EXPONENT, -1, (p - 1) * (q - 1))
    return rsa.RSAPrivateNumbers(
        p=p,
        q=q,
        d=d,
        dmp1=d % (p - 1),
        dmq1=d % (q - 1),
        iqmp=pow(q, -1, p),
        public_numbers=rsa.RSAPublicNumbers(RSA_EXPONENT, p * q),
    ).private_key()


def _prime(bits: Callable[[int], int], between: Callable[[int, int], int]) -> int:
    half = RSA_BITS // 2
    while True:
        # The two highest bits make the product of two primes as long as the key.
        number = bits(half) | (3 << (half - 2)) | 1
        if gcd(number - 1, RSA_EXPONENT) == 1 and _is_prime(number, between):
            return number


def _is_prime(number: int, between: Callable[[int, int], int]) -> bool:
    """Test by Miller and Rabin."""
    if any(number % small == 0 for small in SMALL_PRIMES):
        return False
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    odd = (number - 1) >> twos
    for _ in range(PRIME_ROUNDS):
        power = pow(between(2, number - 1), odd, number)
        if power in {1, number - 1}:
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True
