"""The page for those who move over says words that are true."""

import re
from pathlib import Path

from mailonce.core.ledger.entry import Status
from mailonce.core.reading.mapping import WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text()


def test_the_words_of_events_are_those_that_a_generic_source_reads() -> None:
    table = PAGE.partition("## Which words of events change")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)`", table, re.MULTILINE)

    assert len(rows) > 10
    assert {theirs: str(WORDS[theirs].type) for theirs, _ in rows} == dict(rows)


def test_every_answer_is_explained() -> None:
    table = PAGE.partition("## What the provider gets")[2].partition("\n## ")[0]

    statuses = set(re.findall(r'\| 200 `\{"status": "(\w+)"\}` \| [^|]+\|$', table, re.MULTILINE))

    assert statuses == {str(one) for one in Status}
