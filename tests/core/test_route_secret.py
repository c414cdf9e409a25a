"""Secrets of a route: an old one signs along for as long as it was given."""

from mailonce.core.deliveries.route import RouteSecret
from mailonce.core.deliveries.route_secret import (
    IN_FORCE_MAX,
    Signing,
    in_force,
    rotated,
    secret_for,
    signing_of,
)
from mailonce.core.deliveries.signing import check_secret, public_key_of

NOON = 1_767_268_800_000


def test_a_secret_is_made_of_either_kind() -> None:
    for signing, prefix in ((Signing.HMAC, "whsec_"), (Signing.ED25519, "whsk_")):
        secret = secret_for(signing, bytes(range(32)))

        check_secret(secret)
        assert secret.startswith(prefix)
        assert signing_of(secret) is signing
        assert (public_key_of(secret) is None) is (signing is Signing.HMAC)


def test_the_old_secret_signs_until_the_overlap_ends() -> None:
    old = (RouteSecret("whsec_old"),)

    secrets = rotated(old, "whsec_new", now_ms=NOON, overlap_s=60)

    assert [one.value for one in in_force(secrets, NOON + 59_999)] == ["whsec_new", "whsec_old"]
    assert [one.value for one in in_force(secrets, NOON + 60_000)] == ["whsec_new"]


def test_without_an_overlap_the_old_secret_is_gone_at_once() -> None:
    secrets = rotated((RouteSecret("whsec_old"),), "whsec_new", now_ms=NOON, overlap_s=0)

    assert secrets == (RouteSecret("whsec_new"),)


def test_a_second_rotation_never_lengthens_the_first_overlap() -> None:
    once = rotated((RouteSecret("a"),), "b", now_ms=NOON, overlap_s=60)

    twice = rotated(once, "c", now_ms=NOON + 1_000, overlap_s=3_600)

    assert [(one.value, one.until_ms) for one in twice] == [
        ("c", None),
        ("b", NOON + 3_601_000),
        ("a", NOON + 60_000),
    ]


def test_secrets_in_force_are_bounded() -> None:
    secrets: tuple[RouteSecret, ...] = (RouteSecret("0"),)
    for number in range(30):
        secrets = rotated(secrets, str(number + 1), now_ms=NOON, overlap_s=3_600)

    assert len(secrets) == IN_FORCE_MAX
    assert secrets[0].value == "30"
