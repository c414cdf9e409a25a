"""Find the link that a mail was sent for, judge where it leads, and say why.

Candidates are the anchors that a person sees, addresses in plain text, and declared actions. Words
on the link, around it and in its address speak for it; footers, social networks and a text that
shows another host speak against it. Links that the guard rejects are never chosen; those for review
only where no allowed one is good.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mailonce.core.extraction.extraction import (
    SCORE_MIN,
    ArtifactCandidate,
    ArtifactKind,
    Evidence,
    Extraction,
    ExtractionOutcome,
    ExtractionRule,
    SearchedPart,
    conclude,
)
from mailonce.core.extraction.host_name import registrable_domain
from mailonce.core.extraction.link_guard import judge_link
from mailonce.core.extraction.link_keywords import (
    ACTION_ADDRESS_PATTERN,
    ACTION_PATTERN,
    LEAVING_PATTERN,
    PLAIN_PATTERN,
    ROUTINE_ADDRESS_PATTERN,
    ROUTINE_PATTERN,
    SOCIAL_DOMAINS,
)
from mailonce.core.extraction.link_verdict import LinkDecision, LinkRule, LinkVerdict
from mailonce.core.extraction.mail_texts import PART_CHARS_MAX, MailTexts
from mailonce.core.extraction.normalise import fold
from mailonce.core.extraction.quoted_text import blank_quotes
from mailonce.core.extraction.structured_actions import find_structured_actions
from mailonce.core.mail.visible_text import VisibleText, read_visible_text

# Of one mail; each is judged.
LINKS_MAX = 200
NEARBY_CHARS_MAX = 120
DISPLAY_CHARS_MAX = 500

WEIGHTS = {
    Evidence.STRUCTURED_DATA: 70,
    Evidence.ACTION_IN_TEXT: 50,
    Evidence.ACTION_NEARBY: 30,
    Evidence.ACTION_IN_ADDRESS: 25,
    # It has no words of its own, so those before it are about it.
    Evidence.PLAIN_LINK: 15,
    Evidence.LONG_ID_IN_ADDRESS: 10,
    Evidence.ONLY_LINK: 40,
    Evidence.ROUTINE_LINK: -80,
    Evidence.SOCIAL_NETWORK: -80,
    Evidence.TEXT_SHOWS_OTHER_HOST: -60,
    Evidence.PICTURE_ALONE: -5,
    Evidence.FRONT_PAGE: -20,
    Evidence.NOT_ALLOWED: -1_000,
}

# What speaks against where a link leads, and not against what it is for.
_OF_PLACE = frozenset({Evidence.NOT_ALLOWED, Evidence.TEXT_SHOWS_OTHER_HOST})
# What every mail has at its end.
_FOOTER = frozenset({Evidence.ROUTINE_LINK, Evidence.SOCIAL_NETWORK})
# What a link says that it does.
_ACTIONS = frozenset({Evidence.STRUCTURED_DATA, Evidence.ACTION_IN_TEXT, Evidence.ACTION_NEARBY})

# Where an address in plain text ends: at a blank, a quote or an angle bracket; in Markdown at the
# end of the words of a link; and at scripts that write no spaces, unless in the host. In a token
# such letters are percent-encoded.
_HOST_CHAR = r"(?!\]\()[^\s<>\"'`/?#]"
_PATH_CHAR = r"(?!\]\()[^\s<>\"'`\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]"
_BARE = re.compile(
    rf"https?://(?:{_HOST_CHAR}){{1,4096}}(?:[/?#](?:{_PATH_CHAR}){{0,4096}})?", re.IGNORECASE
)
_TRAILING = ".,;:!?)]}*|'\"»›”’…–—。、，．；：！？）】」』》〉"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_SHOWN_HOST = re.compile(
    r"(?:https?://|www\.)?((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24})(?![a-z0-9.-])", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
_LONG_ID = re.compile(r"(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}")


@dataclass(frozen=True, slots=True)
class _Place:
    """A link where it stands: its address, its own words, and those before it."""

    rule: ExtractionRule
    part: SearchedPart
    url: str
    words: str
    nearby: str
    start: int = 0
    end: int = 0
    is_confirming: bool = False


def extract_link(
    mail: MailTexts, allow: Sequence[LinkRule], *, takes_only: bool = False
) -> Extraction:
    """Find the link of a mail that is to be followed; `allow` is what the operator allows.

    `takes_only`: the only link that is allowed is the one, also where no words say so.
    """
    visible = read_visible_text(mail.html, chars_max=PART_CHARS_MAX)
    places = list(_places(mail, visible))
    candidates = _best_of_each(_candidate(place, allow) for place in places[:LINKS_MAX])
    if takes_only:
        candidates = _with_only_link(candidates)
    is_truncated = visible.is_truncated or len(places) > LINKS_MAX
    is_truncated |= len(mail.text) > PART_CHARS_MAX
    allowed = [one for one in candidates if _decision(one) is LinkDecision.ALLOWED]
    first = conclude(ArtifactKind.LINK, allowed, is_truncated=is_truncated)
    if first.outcome is not ExtractionOutcome.NONE:
        chosen = allowed
    else:
        chosen = [one for one in candidates if _decision(one) is not LinkDecision.REJECTED]
    rejected = [one for one in candidates if one not in chosen]
    is_refused = not any(one.is_good for one in chosen) and _is_kept_back(
        rejected, chosen, takes_only=takes_only
    )
    result = conclude(
        ArtifactKind.LINK,
        chosen,
        reason_for_none=Evidence.NOT_ALLOWED if is_refused else None,
        is_truncated=is_truncated,
    )
    return _with_rejected(result, rejected)


def _is_kept_back(
    rejected: Sequence[ArtifactCandidate],
    chosen: Sequence[ArtifactCandidate],
    *,
    takes_only: bool,
) -> bool:
    """Say whether a rejected link is the one that the mail was sent for.

    It would be taken if it led where it may, and where its words say. Those of a footer lead
    elsewhere in most mails, and say nothing about the others.
    """
    if any(one.score - _score_of_place(one) >= SCORE_MIN for one in rejected):
        return True
    plain = [one for one in rejected if _OF_PLACE.issuperset(one.speaks_against)]
    return takes_only and len(plain) == 1 and not any(map(_is_neutral, chosen))


def _score_of_place(candidate: ArtifactCandidate) -> int:
    return sum(WEIGHTS[one] for one in candidate.speaks_against if one in _OF_PLACE)


def _with_rejected(result: Extraction, rejected: Sequence[ArtifactCandidate]) -> Extraction:
    """Show what was rejected behind what was chosen from."""
    return Extraction(
        kind=result.kind,
        outcome=result.outcome,
        candidates=(*result.candidates, *rejected)[:LINKS_MAX],
        reason=result.reason,
        is_truncated=result.is_truncated,
        winner=result.winner,
    )


def _places(mail: MailTexts, visible: VisibleText) -> Iterator[_Place]:
    for action in find_structured_actions(mail.html):
        yield _Place(
            rule=ExtractionRule.STRUCTURED_ACTION,
            part=SearchedPart.HTML,
            url=action.url,
            words=action.name,
            nearby="",
            is_confirming=action.is_confirming,
        )
    html = blank_quotes(visible.text)
    for anchor in visible.anchors:
        is_quoted = anchor.text and not html[anchor.start : anchor.end].strip()
        if not is_quoted and not anchor.href.startswith("#"):
            nearby = _nearby(html, anchor.start)
            yield _Place(
                rule=ExtractionRule.ANCHOR,
                part=SearchedPart.HTML,
                url=anchor.href,
                words=anchor.text,
                nearby=nearby,
                start=anchor.start,
                end=anchor.end,
            )
    anchored = [(anchor.start, anchor.end) for anchor in visible.anchors]
    yield from _bare(blank_quotes(mail.text[:PART_CHARS_MAX]), SearchedPart.TEXT, [])
    yield from _bare(html, SearchedPart.HTML, anchored)


def _bare(text: str, part: SearchedPart, anchored: Sequence[tuple[int, int]]) -> Iterator[_Place]:
    for match in _BARE.finditer(text):
        start = match.start()
        if any(low <= start < high for low, high in anchored):
            continue
        url = _without_trailing_marks(match[0], before=text[start - 1 : start])
        yield _Place(
            rule=ExtractionRule.BARE_LINK,
            part=part,
            url=url,
            words="",
            nearby=_nearby(text, start),
            start=start,
            end=start + len(url),
        )


def _without_trailing_marks(url: str, *, before: str) -> str:
    """Take off punctuation of the sentence; a bracket that was opened in the address stays.

    So does `_`, with which a token may end, unless one stands before the address, too.
    """
    marks = f"{_TRAILING}_" if before == "_" else _TRAILING
    while url and url[-1] in marks:
        opening = _BRACKETS.get(url[-1])
        if opening is not None and url.count(opening) >= url.count(url[-1]):
            break
        url = url[:-1]
    return url


def _nearby(text: str, start: int) -> str:
    """Give the words of the line before a place, or of the nearest line above it."""
    line_start = text.rfind("\n", 0, start) + 1
    before = text[max(line_start, start - NEARBY_CHARS_MAX) : start]
    if before.strip(" <([{:-\"'"):
        return before
    above = text[max(0, line_start - NEARBY_CHARS_MAX) : line_start].rstrip()
    return above[above.rfind("\n") + 1 :]


def _candidate(place: _Place, allow: Sequence[LinkRule]) -> ArtifactCandidate:
    verdict = judge_link(place.url, allow)
    evidence = list(_evidence(place, verdict))
    if verdict.decision is LinkDecision.REJECTED:
        evidence.append(Evidence.NOT_ALLOWED)
    score = sum(WEIGHTS[one] for one in evidence)
    return ArtifactCandidate(
        kind=ArtifactKind.LINK,
        value=verdict.url,
        display=(place.words or place.url)[:DISPLAY_CHARS_MAX],
        rule=place.rule,
        part=place.part,
        start=place.start,
        end=place.end,
        score=score,
        speaks_for=tuple(one for one in evidence if WEIGHTS[one] > 0),
        speaks_against=tuple(one for one in evidence if WEIGHTS[one] <= 0),
        guard=verdict,
    )


def _evidence(place: _Place, verdict: LinkVerdict) -> Iterator[Evidence]:
    words = fold(place.words)
    nearby = fold(place.nearby)
    address = f"{verdict.path}?{verdict.query}".lower()
    if place.is_confirming:
        yield Evidence.STRUCTURED_DATA
    if ACTION_PATTERN.search(words):
        yield Evidence.ACTION_IN_TEXT
    elif ACTION_PATTERN.search(nearby):
        yield Evidence.ACTION_NEARBY
        if place.rule is ExtractionRule.BARE_LINK or PLAIN_PATTERN.fullmatch(words):
            yield Evidence.PLAIN_LINK
    if ACTION_ADDRESS_PATTERN.search(address):
        yield Evidence.ACTION_IN_ADDRESS
    if _LONG_ID.search(address):
        yield Evidence.LONG_ID_IN_ADDRESS
    if (
        ROUTINE_PATTERN.search(words)
        or ROUTINE_ADDRESS_PATTERN.search(verdict.path.lower())
        or (place.rule is ExtractionRule.BARE_LINK and _is_for_leaving(nearby))
    ):
        yield Evidence.ROUTINE_LINK
    if verdict.domain in SOCIAL_DOMAINS:
        yield Evidence.SOCIAL_NETWORK
    if _shows_other_host(place.words, verdict):
        yield Evidence.TEXT_SHOWS_OTHER_HOST
    if place.rule is ExtractionRule.ANCHOR and not place.words:
        yield Evidence.PICTURE_ALONE
    if verdict.path == "/" and not verdict.query and not verdict.fragment:
        yield Evidence.FRONT_PAGE


def _is_for_leaving(nearby: str) -> bool:
    """Say whether the sentence before a link speaks of no more mail, and of nothing else."""
    sentence = _SENTENCE_END.split(nearby)[-1]
    return bool(LEAVING_PATTERN.search(sentence)) and not ACTION_PATTERN.search(sentence)


def shown_host(words: str) -> str:
    """Give the host that the words of a link show; "" where they show none."""
    match = _SHOWN_HOST.search(words[:DISPLAY_CHARS_MAX])
    return "" if match is None else match[1].lower()


def _shows_other_host(words: str, verdict: LinkVerdict) -> bool:
    match = _SHOWN_HOST.search(words[:DISPLAY_CHARS_MAX])
    if match is None or not verdict.domain:
        return False
    shown = registrable_domain(match[1].lower())
    return shown not in {"", verdict.domain} and (match[0] != match[1] or "/" in words)


def _best_of_each(candidates: Iterable[ArtifactCandidate]) -> list[ArtifactCandidate]:
    best: dict[str, ArtifactCandidate] = {}
    for candidate in candidates:
        key = candidate.value or candidate.display
        if key not in best or candidate.score > best[key].score:
            best[key] = candidate
    return list(best.values())


def _with_only_link(candidates: Sequence[ArtifactCandidate]) -> list[ArtifactCandidate]:
    """Add to the score of the only link that is allowed and that nothing speaks against.

    Where another link speaks of an action, the mail was sent for that one, wherever it leads.
    """
    only = [one for one in candidates if _is_neutral(one)]
    others = [one for one in candidates if one not in only]
    if len(only) != 1 or only[0].is_good or any(map(_says_what_it_does, others)):
        return list(candidates)
    better = replace(
        only[0],
        score=only[0].score + WEIGHTS[Evidence.ONLY_LINK],
        speaks_for=(*only[0].speaks_for, Evidence.ONLY_LINK),
    )
    return [better if one is only[0] else one for one in candidates]


def _says_what_it_does(candidate: ArtifactCandidate) -> bool:
    is_footer = not _FOOTER.isdisjoint(candidate.speaks_against)
    return not is_footer and not _ACTIONS.isdisjoint(candidate.speaks_for)


def _is_neutral(candidate: ArtifactCandidate) -> bool:
    return _decision(candidate) is LinkDecision.ALLOWED and not candidate.speaks_against


def _decision(candidate: ArtifactCandidate) -> LinkDecision:
    assert candidate.guard is not None, "every link was judged"
    return candidate.guard.decision
