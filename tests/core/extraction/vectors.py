"""Mails and links with what should be found in them; the files were written by hand."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailonce.core.extraction.code_format import parse_code_format
from mailonce.core.extraction.codes import extract_code
from mailonce.core.extraction.extraction import Extraction, ExtractionOutcome
from mailonce.core.extraction.link_verdict import LinkRule
from mailonce.core.extraction.links import extract_link
from mailonce.core.extraction.mail_texts import MailTexts

HERE = Path(__file__).parent
CODE_FILES = sorted(path.stem for path in (HERE / "codes").glob("*.toml"))
LINK_FILES = sorted(path.stem for path in (HERE / "links").glob("*-links.toml"))
AMBIGUOUS = "ambiguous"


def load(folder: str, name: str, table: str = "mail") -> Sequence[Mapping[str, Any]]:
    return list(tomllib.loads((HERE / folder / f"{name}.toml").read_text())[table])


def mail_of(vector: Mapping[str, Any]) -> MailTexts:
    return MailTexts(
        subject=vector.get("subject", ""), text=vector.get("text", ""), html=vector.get("html", "")
    )


def rules_of(vector: Mapping[str, Any], host: str) -> list[LinkRule]:
    return [LinkRule(**rule) for rule in vector.get("allow", [{"host": host}])]


def code_in(vector: Mapping[str, Any]) -> Extraction:
    code_format = parse_code_format(vector["format"]) if "format" in vector else None
    return extract_code(mail_of(vector), code_format)


def link_in(vector: Mapping[str, Any]) -> Extraction:
    return extract_link(mail_of(vector), rules_of(vector, "app.example.com"))


def result_of(extraction: Extraction) -> str:
    """Give the value, "" for none, or "ambiguous"."""
    if extraction.outcome is ExtractionOutcome.AMBIGUOUS:
        return AMBIGUOUS
    return extraction.winner.value if extraction.winner else ""


@dataclass(frozen=True, slots=True)
class Score:
    """How often what was found is right, and how much of what is there was found."""

    mails: int
    right: int
    false: int
    missed: int
    with_value: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.false) if self.right + self.false else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.with_value if self.with_value else 1.0


def score(results: Sequence[tuple[str, str]]) -> Score:
    """Count pairs of what was expected and what came out."""
    values = [(want, got) for want, got in results if got not in {"", AMBIGUOUS}]
    with_value = [(want, got) for want, got in results if want not in {"", AMBIGUOUS}]
    return Score(
        mails=len(results),
        right=sum(want == got for want, got in values),
        false=sum(want != got for want, got in values),
        missed=sum(want != got for want, got in with_value),
        with_value=len(with_value),
    )
