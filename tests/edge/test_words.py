"""Words that users read: the field's own, so that they can be searched for."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from pydantic import BaseModel, ValidationError
from typer.main import get_command

from mailonce import providers, telemetry
from mailonce.edge.cli.main import app
from mailonce.edge.http.app import build_app
from mailonce.edge.http.problems import TITLES, sentence_of
from mailonce.settings import Settings, SourceSettings
from mailonce.wiring import build_service

ROOT = Path(__file__).parents[2]
DIALECT = re.compile(
    r"\b(told|heard|hears|owed|owes|spoke|swallowed|stands already|who are you|not now|"
    r"no such thing|not this method|whom to play|may speak|gone through|passes nothing by|"
    r"signs along|on lease|a server elsewhere|to know it by|to repair|was not let in|"
    r"something was said|was given up on|this provider alone|there are more; raise|"
    r"nothing is known of|nothing was said|acknowledged that should be|beside none|"
    r"seals stored|answer blames|of standard error|what your words say)\b",
    re.IGNORECASE,
)
# The outbox of the gate has a public class `Owed`.
DOCS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name not in {"gate.md", "sends.md"}
]


def help_texts(command: Any, path: str = "mailonce") -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    for parameter in command.params:
        yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from help_texts(inner, f"{path} {name}")


def described(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in {"summary", "description", "title"} and isinstance(inner, str):
                yield f"{path}.{name}", inner
            yield from described(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from described(inner, path)


def test_the_help_of_every_command_is_plain() -> None:
    texts = dict(help_texts(get_command(app)))

    assert len(texts) > 200
    assert {where: text for where, text in texts.items() if DIALECT.search(text)} == {}


async def test_the_description_of_the_api_is_plain(tmp_path: Path) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    transport = httpx.ASGITransport(build_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        description = (await client.get("/openapi.json")).json()
    await service.database.close()

    texts = dict(described(description))

    assert len(texts) > 200
    assert {where: text for where, text in texts.items() if DIALECT.search(text)} == {}


def test_log_events_and_the_help_of_metrics_are_plain() -> None:
    names = {
        name: value for name, value in vars(telemetry).items()
        if name.isupper() and isinstance(value, str)
    }  # fmt: skip
    helps = {one.name: one.documentation for one in telemetry.Metrics().registry.collect()}

    assert len(names) > 40
    assert len(helps) > 20
    spoken = {**{name: value.replace("_", " ") for name, value in names.items()}, **helps}
    assert {where: text for where, text in spoken.items() if DIALECT.search(text)} == {}


def test_the_descriptions_of_settings_are_plain() -> None:
    texts = dict(setting_texts(Settings))

    assert len(texts) > 150
    assert {where: text for where, text in texts.items() if DIALECT.search(text)} == {}


def test_the_sentences_of_errors_are_plain() -> None:
    """Those are the details of problems, and what a command prints when it fails."""
    sentences = list(error_sentences())

    assert len(sentences) > 200
    assert [one for one in sentences if DIALECT.search(one[1])] == []


def setting_texts(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        yield f"{path}{name}", field.description or ""
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from setting_texts(inner, f"{path}{name}.")


def error_sentences() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src/mailonce").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            words = "".join(
                part.value
                for part in ast.walk(node.exc)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            if words:
                yield f"{path.name}:{node.lineno}", words


def test_a_refused_setting_in_a_request_is_said_in_our_words_alone() -> None:
    given = {"provider": "mailgun", "secret": "@/run/secrets/mg"}
    with pytest.raises(ValidationError) as refused:
        SourceSettings.model_validate(given)
    [fault] = refused.value.errors()

    sentence = sentence_of({**fault, "loc": ("body", *fault["loc"])})

    assert sentence.startswith("`secret` is wrong: `@FILE` is for options on the command line")


def test_the_titles_of_problems_are_those_of_http() -> None:
    assert TITLES[401] == "Unauthorized"
    assert TITLES[409] == "Conflict"
    assert [title for title in TITLES.values() if DIALECT.search(title)] == []


def test_the_readme_counts_the_providers_that_there_are() -> None:
    generic = {"cloudevents", "eventbridge", "hmac", "mailonce", "standardwebhooks"}
    services = set(providers.BUILTIN) - generic
    text = (ROOT / "README.md").read_text()

    assert f"{len(services)} providers" in text
    assert f"{len(services)} email providers" in text


def test_the_documents_are_plain() -> None:
    lines = [
        f"{path.name}:{number}: {line}"
        for path in DOCS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if DIALECT.search(line)
    ]

    assert lines == []
