"""One good value is found; two are ambiguous; none is none."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.extraction import (
    CANDIDATES_MAX,
    SCORE_GAP,
    SCORE_MIN,
    ArtifactCandidate,
    ArtifactKind,
    Evidence,
    ExtractionOutcome,
    ExtractionRule,
    SearchedPart,
    conclude,
)


def candidate(value: str, score: int, part: SearchedPart = SearchedPart.TEXT) -> ArtifactCandidate:
    return ArtifactCandidate(
        kind=ArtifactKind.CODE,
        value=value,
        display=value,
        rule=ExtractionRule.DIGITS,
        part=part,
        start=0,
        end=len(value),
        score=score,
    )


def outcome_of(*candidates: ArtifactCandidate) -> tuple[ExtractionOutcome, Evidence | None]:
    extraction = conclude(ArtifactKind.CODE, candidates)
    return extraction.outcome, extraction.reason


def test_nothing_is_none() -> None:
    assert outcome_of() == (ExtractionOutcome.NONE, Evidence.NO_CANDIDATE)


def test_too_little_evidence_is_none() -> None:
    assert outcome_of(candidate("1", SCORE_MIN - 1)) == (
        ExtractionOutcome.NONE,
        Evidence.TOO_LITTLE_EVIDENCE,
    )


def test_one_good_value_is_found_however_often_it_stands() -> None:
    extraction = conclude(
        ArtifactKind.CODE,
        [candidate("1", SCORE_MIN), candidate("1", 90, SearchedPart.HTML), candidate("2", 10)],
    )

    assert extraction.outcome is ExtractionOutcome.FOUND
    assert extraction.winner == candidate("1", 90, SearchedPart.HTML)
    assert extraction.reason is None


def test_two_values_with_close_scores_are_ambiguous() -> None:
    close = [candidate("1", 80), candidate("2", 80 - SCORE_GAP + 1)]
    apart = [candidate("1", 80), candidate("2", 80 - SCORE_GAP)]

    assert outcome_of(*close) == (ExtractionOutcome.AMBIGUOUS, Evidence.EQUALLY_GOOD)
    assert outcome_of(*apart) == (ExtractionOutcome.FOUND, None)


def test_parts_that_disagree_are_ambiguous_however_their_scores_differ() -> None:
    pair = [candidate("1", 90), candidate("2", SCORE_MIN, SearchedPart.HTML)]

    assert outcome_of(*pair) == (ExtractionOutcome.AMBIGUOUS, Evidence.PARTS_DIFFER)


def test_what_is_bound_to_an_origin_wins() -> None:
    bound = replace(candidate("1", 100), speaks_for=(Evidence.BOUND_TO_ORIGIN,))

    assert outcome_of(bound, candidate("2", 99)) == (ExtractionOutcome.FOUND, None)


@given(
    st.lists(
        st.builds(
            candidate,
            st.sampled_from(["1", "2", "3"]),
            st.integers(-100, 150),
            st.sampled_from(SearchedPart),
        ),
        max_size=8,
    ).flatmap(lambda ones: st.tuples(st.just(ones), st.permutations(ones)))
)
def test_the_order_of_candidates_does_not_matter(
    pair: tuple[Sequence[ArtifactCandidate], Sequence[ArtifactCandidate]],
) -> None:
    first, second = (conclude(ArtifactKind.CODE, one) for one in pair)

    assert first == second
    assert (first.winner is not None) == (first.outcome is ExtractionOutcome.FOUND)


def test_candidates_are_bounded() -> None:
    many = [candidate(str(number), number) for number in range(1_000)]

    assert len(conclude(ArtifactKind.CODE, many).candidates) == CANDIDATES_MAX
