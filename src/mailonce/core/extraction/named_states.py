"""Find which of the states that an expectation names a mail speaks of.

A state is a word or a few (`approved`, `payment failed`). The value is the one that was named,
never words of the mail.
"""

import re
from collections.abc import Iterator, Sequence

from mailonce.core.extraction.extraction import (
    ArtifactCandidate,
    ArtifactKind,
    Evidence,
    Extraction,
    ExtractionRule,
    SearchedPart,
    conclude,
)
from mailonce.core.extraction.mail_texts import MailTexts, PartText, part_texts
from mailonce.core.extraction.normalise import fold, normalise

STATES_MAX = 20
STATE_CHARS_MAX = 40
PLACES_MAX = 50

WEIGHTS = {Evidence.STATE_NAMED: 50, Evidence.IN_SUBJECT: 10, Evidence.NEGATED: -60}

_NEGATION = re.compile(
    r"(?:(?<![a-zа-я])(?:not|n't|never|no|cannot|if|once|until|unless|when|whether|or|yet|nicht"
    r"|keine?|noch|wenn|falls|ob|ne|pas|non|si|sin|nao|sem|se|niet|geen|nie|jesli|не|если|ikke|inte"
    r"|ei)(?: (?:been|yet|be|is|was|wurde|ete|sido|stato|byl|был\w?))?|未|没有|不|还未)[ \"']*$"
)
_NEGATION_BEHIND = re.compile(r" ?(?:degil|않|하지 않|ない|ません|नहीं)")


def extract_state(mail: MailTexts, states: Sequence[str]) -> Extraction:
    """Find the one state that a mail speaks of; `states` are the only values there are.

    Raises: ValueError where the states are none that can be told apart.
    """
    names = {" ".join(fold(normalise(state)).split()): state for state in states}
    if not 1 <= len(states) <= STATES_MAX or len(names) < len(states) or "" in names:
        raise ValueError(f"name 1 to {STATES_MAX} different states, each a word or a few")
    if any(len(state) > STATE_CHARS_MAX for state in states):
        raise ValueError(f"a state has at most {STATE_CHARS_MAX} characters; shorten it")
    parts = part_texts(mail)
    candidates = [one for part in parts for one in _candidates(part, names)]
    is_truncated = any(part.is_truncated for part in parts)
    return conclude(ArtifactKind.STATE, candidates, is_truncated=is_truncated)


def _candidates(part: PartText, names: dict[str, str]) -> Iterator[ArtifactCandidate]:
    text = fold(part.text)
    # Longer names first: "not approved" is a state of its own where it is named.
    words = sorted(names, key=len, reverse=True)
    joined = "|".join(re.escape(word).replace(r"\ ", r"\s{1,3}") for word in words)
    pattern = re.compile(rf"(?<![a-z0-9а-я_])(?:{joined})(?![a-z0-9а-я_])")
    if any(not word.isascii() and not re.search("[a-zа-я]", word) for word in words):
        pattern = re.compile(joined)
    for number, match in enumerate(pattern.finditer(text)):
        if number >= PLACES_MAX:
            return
        evidence = [Evidence.STATE_NAMED]
        if part.part is SearchedPart.SUBJECT:
            evidence.append(Evidence.IN_SUBJECT)
        before = text[max(0, match.start() - 30) : match.start()]
        if _NEGATION.search(before) or _NEGATION_BEHIND.match(text, match.end()):
            evidence.append(Evidence.NEGATED)
        yield ArtifactCandidate(
            kind=ArtifactKind.STATE,
            value=names[" ".join(match[0].split())],
            display=part.text[match.start() : match.end()],
            rule=ExtractionRule.WORD,
            part=part.part,
            start=match.start(),
            end=match.end(),
            score=sum(WEIGHTS[one] for one in evidence),
            speaks_for=tuple(one for one in evidence if WEIGHTS[one] > 0),
            speaks_against=tuple(one for one in evidence if WEIGHTS[one] <= 0),
        )
