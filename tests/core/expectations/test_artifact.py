"""A value is known by a keyed hash, and valid for a day."""

from mailonce.core.expectations.artifact import VALID_MS, ArtifactKeys, SealedArtifact, place_of
from tests.core.expectations.cases import CODE, LINK, NOON_MS


def test_a_hash_needs_the_master_key_and_survives_its_rotation() -> None:
    old, rotated, other = ArtifactKeys(["a"]), ArtifactKeys(["b", "a"]), ArtifactKeys(["c"])

    [kept] = old.digests(CODE, "734120")

    assert kept in rotated.digests(CODE, "734120")
    assert kept != rotated.digests(CODE, "734120")[0]
    assert kept not in other.digests(CODE, "734120")
    assert kept not in old.digests(LINK, "734120")
    assert len(kept) == 32


def test_an_artifact_is_valid_for_a_day() -> None:
    made = SealedArtifact(
        id=b"a" * 16,
        workspace="default",
        subject="inb_1",
        kind=CODE,
        digest=b"",
        generation=0,
        made_ms=NOON_MS,
        sealed=None,
    )

    assert made.is_valid(NOON_MS + VALID_MS - 1)
    assert not made.is_valid(NOON_MS + VALID_MS)


def test_a_sealed_value_is_bound_to_its_row() -> None:
    assert place_of("a", b"1" * 16) != place_of("b", b"1" * 16) != place_of("b", b"2" * 16)
