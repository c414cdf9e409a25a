"""A claim, without a database: who is first with a key, a copy, or in conflict with its owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ledger.claim import (
    FIRST,
    STANDS,
    ClaimRow,
    ConflictWith,
    CopyOf,
    FirstClaim,
    Verdict,
    judge_claim,
)

KEY = Key(b"key" * 5)
THIS, OTHER = Fingerprint(b"this" * 4), Fingerprint(b"other" * 4)


@pytest.mark.parametrize(
    ("standing", "verdict"),
    [
        (None, FIRST),
        (ClaimRow(KEY, THIS, b"me"), STANDS),
        (ClaimRow(KEY, THIS, b"another"), CopyOf(b"another")),
        (ClaimRow(KEY, OTHER, b"another"), ConflictWith(b"another")),
    ],
    ids=["nobody", "an earlier try", "same content", "other content"],
)
def test_the_owner_of_the_key_decides(standing: ClaimRow | None, verdict: Verdict) -> None:
    assert judge_claim(b"me", THIS, standing) == verdict


def test_an_earlier_try_is_told_from_the_first_one() -> None:
    """Both are first to their callers; only one of them is written."""
    assert isinstance(judge_claim(b"me", THIS, None), FirstClaim)
    assert judge_claim(b"me", THIS, None) != judge_claim(b"me", THIS, ClaimRow(KEY, THIS, b"me"))


contents = st.sampled_from([THIS, OTHER, Fingerprint(b"third" * 4)])


@given(st.lists(contents, min_size=1, max_size=8))
def test_whatever_comes_one_is_first_and_all_others_are_judged_by_its_content(
    some: list[Fingerprint],
) -> None:
    standing: ClaimRow | None = None
    verdicts = []
    for number, content in enumerate(some):
        verdict = judge_claim(bytes([number]), content, standing)
        verdicts.append(verdict)
        if verdict is FIRST:
            standing = ClaimRow(KEY, content, bytes([number]))

    same = [content == some[0] for content in some[1:]]
    expected = [CopyOf(b"\0") if is_same else ConflictWith(b"\0") for is_same in same]
    assert verdicts == [FIRST, *expected]


@given(st.lists(contents, min_size=1, max_size=8))
def test_claimants_that_come_again_hear_the_same_and_write_nothing(
    some: list[Fingerprint],
) -> None:
    standing = ClaimRow(KEY, some[0], b"\0")

    first, *others = [
        judge_claim(bytes([number]), content, standing) for number, content in enumerate(some)
    ]

    assert first is STANDS
    assert not any(isinstance(verdict, FirstClaim) for verdict in others)
