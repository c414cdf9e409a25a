"""What was found in a mail, and why: candidates, each with its evidence, and one outcome.

Only `value` has a closed grammar; `display` is what the sender wrote, and no agent may see it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailonce.core.extraction.link_verdict import LinkVerdict

# Evidence adds up to a score; from here on a candidate is good enough.
SCORE_MIN = 40
# Two values whose scores differ by less are equally good.
SCORE_GAP = 10
CANDIDATES_MAX = 50


class ArtifactKind(StrEnum):
    CODE = "code"
    LINK = "link"
    STATE = "state"


class ExtractionOutcome(StrEnum):
    FOUND = "found"
    NONE = "none"
    AMBIGUOUS = "ambiguous"


class SearchedPart(StrEnum):
    SUBJECT = "subject"
    TEXT = "text"
    HTML = "html"


class ExtractionRule(StrEnum):
    """The shape or the place by which a candidate was found."""

    ORIGIN_BOUND = "origin_bound"
    FORMAT = "format"
    SINGLE_DIGITS = "single_digits"
    DIGIT_GROUPS = "digit_groups"
    PREFIXED_DIGITS = "prefixed_digits"
    DIGITS = "digits"
    ALPHANUMERIC = "alphanumeric"
    STRUCTURED_ACTION = "structured_action"
    ANCHOR = "anchor"
    BARE_LINK = "bare_link"
    WORD = "word"


class Evidence(StrEnum):
    """A word that speaks for or against a candidate; a reason why there is no single one."""

    # For a code.
    BOUND_TO_ORIGIN = "bound_to_origin"
    KEYWORD_IN_SENTENCE = "keyword_in_sentence"
    KEYWORD_IN_LINE = "keyword_in_line"
    KEYWORD_IN_LINE_ABOVE = "keyword_in_line_above"
    KEYWORD_ABOVE = "keyword_above"
    KEYWORD_IN_LINE_BELOW = "keyword_in_line_below"
    KEYWORD_IN_MAIL = "keyword_in_mail"
    WEAK_KEYWORD_NEAR = "weak_keyword_near"
    CODE_LABEL = "code_label"
    INPUT_VERB_NEAR = "input_verb_near"
    ACTION_IN_SENTENCE = "action_in_sentence"
    ALONE_ON_LINE = "alone_on_line"
    ONLY_NUMBER = "only_number"
    SIX_DIGITS = "six_digits"
    IN_SUBJECT = "in_subject"
    MATCHES_FORMAT = "matches_format"
    ONLY_OF_FORMAT = "only_of_format"
    # Against a code.
    OTHER_NUMBER = "other_number"
    PROMOTION = "promotion"
    YEAR = "year"
    LETTERS_WITHOUT_KEYWORD = "letters_without_keyword"
    # What makes a number no code at all.
    CURRENCY = "currency"
    UNIT = "unit"
    PART_OF_NUMBER = "part_of_number"
    PHONE = "phone"
    DATE = "date"
    TIME = "time"
    MASKED_NUMBER = "masked_number"
    HASH_SIGN = "hash_sign"
    # For a link.
    STRUCTURED_DATA = "structured_data"
    ACTION_IN_TEXT = "action_in_text"
    ACTION_NEARBY = "action_nearby"
    ACTION_IN_ADDRESS = "action_in_address"
    PLAIN_LINK = "plain_link"
    LONG_ID_IN_ADDRESS = "long_id_in_address"
    ONLY_LINK = "only_link"
    # Against a link.
    ROUTINE_LINK = "routine_link"
    SOCIAL_NETWORK = "social_network"
    TEXT_SHOWS_OTHER_HOST = "text_shows_other_host"
    PICTURE_ALONE = "picture_alone"
    FRONT_PAGE = "front_page"
    # For and against a state.
    STATE_NAMED = "state_named"
    NEGATED = "negated"
    # Why nothing was chosen.
    EQUALLY_GOOD = "equally_good"
    PARTS_DIFFER = "parts_differ"
    NO_CANDIDATE = "no_candidate"
    TOO_LITTLE_EVIDENCE = "too_little_evidence"
    NOT_ALLOWED = "not_allowed"


# What is good for these alone is good where nothing better came.
WEAK_EVIDENCE = frozenset({Evidence.ONLY_LINK, Evidence.ONLY_OF_FORMAT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCandidate:
    """A value that may be the one, where it stands, and what speaks for and against it."""

    kind: ArtifactKind
    value: str
    # As the mail shows it, such as "734 120"; chosen by the sender.
    display: str
    rule: ExtractionRule
    part: SearchedPart
    # Where it stands in the part, counted in characters of its normalised text.
    start: int
    end: int
    score: int
    speaks_for: tuple[Evidence, ...] = ()
    speaks_against: tuple[Evidence, ...] = ()
    # Of a code with a prefix: the digits alone, which some forms want.
    digits: str = ""
    # Of an origin-bound code: the host that it is bound to.
    origin: str = ""
    # Of a link: where it leads, and whether it may be followed.
    guard: LinkVerdict | None = None

    @property
    def is_good(self) -> bool:
        return self.score >= SCORE_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The outcome over one mail; candidates are ordered, best first."""

    kind: ArtifactKind
    outcome: ExtractionOutcome
    candidates: tuple[ArtifactCandidate, ...] = ()
    # The one good candidate; None unless the outcome is `found`.
    winner: ArtifactCandidate | None = None
    # Why there is none.
    reason: Evidence | None = None
    # Something was left out, since a limit was reached.
    is_truncated: bool = False


def conclude(
    kind: ArtifactKind,
    candidates: Iterable[ArtifactCandidate],
    *,
    reason_for_none: Evidence | None = None,
    is_truncated: bool = False,
) -> Extraction:
    """Choose the one good candidate, or say why there is none.

    Two different good values are ambiguous when their scores are close, and when they are the best
    of different parts: a mail whose text and HTML disagree was written to mislead somebody.
    """
    ordered = sorted(candidates, key=_order)[:CANDIDATES_MAX]
    good = [candidate for candidate in ordered if candidate.is_good]
    if not good:
        missing = Evidence.TOO_LITTLE_EVIDENCE if ordered else Evidence.NO_CANDIDATE
        return Extraction(
            kind=kind,
            outcome=ExtractionOutcome.NONE,
            candidates=tuple(ordered),
            reason=reason_for_none or missing,
            is_truncated=is_truncated,
        )
    reason = _disagreement(good)
    return Extraction(
        kind=kind,
        outcome=ExtractionOutcome.AMBIGUOUS if reason else ExtractionOutcome.FOUND,
        candidates=tuple(ordered),
        reason=reason,
        is_truncated=is_truncated,
        winner=None if reason else good[0],
    )


def _disagreement(good: Sequence[ArtifactCandidate]) -> Evidence | None:
    best = good[0]
    if Evidence.BOUND_TO_ORIGIN in best.speaks_for:
        return None
    for other in good[1:]:
        if other.value != best.value and best.score - other.score < SCORE_GAP:
            return Evidence.EQUALLY_GOOD
    if best.kind is not ArtifactKind.CODE:
        return None
    heads: dict[SearchedPart, str] = {}
    for candidate in good:
        heads.setdefault(candidate.part, candidate.value)
    return Evidence.PARTS_DIFFER if len(set(heads.values())) > 1 else None


def _order(candidate: ArtifactCandidate) -> tuple[int, int, int, int, str]:
    parts = list(SearchedPart)
    place = parts.index(candidate.part)
    return -candidate.score, place, candidate.start, candidate.end, candidate.value
