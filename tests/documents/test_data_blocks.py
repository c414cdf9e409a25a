"""Settings, JSON and other data in the documents: read by whoever reads them in earnest."""

import json
import re
import tomllib
from itertools import chain
from typing import Any

import pytest

from mailonce import providers
from mailonce.manage.settings_file import check_records
from mailonce.providers import sending
from mailonce.settings import SenderSettings, Settings
from mailonce.testing import make_simulator
from tests.documents.blocks import ELLIPSIS, Block, all_blocks

A_WORD = "a-word-that-is-long-enough-for-a-secret"
PAGES = sorted({block.page for block in all_blocks() if block.language == "toml"})


def blocks_in(language: str) -> list[Block]:
    return [block for block in all_blocks() if block.language == language]


@pytest.mark.parametrize("page", PAGES)
def test_settings_are_settings(page: str, subtests: pytest.Subtests) -> None:
    for block in blocks_in("toml"):
        if block.page != page:
            continue
        with subtests.test(block.name):
            values = fill(tomllib.loads(block.text))

            check_records(Settings(**values))


def test_every_provider_has_an_example_of_a_sender_and_says_what_its_settings_are() -> None:
    blocks = [tomllib.loads(one.text) for one in blocks_in("toml") if one.page == "senders.md"]

    assert [*chain.from_iterable(one["senders"] for one in blocks)] == [*sending.names()]
    for name in sending.names():
        provider = sending.find(name)
        assert provider is not None
        needs = {"secret" if need == "secrets" else need for need in provider.needs}
        assert needs <= provider.settings.keys() <= SenderSettings.model_fields.keys()


def test_a_setting_that_does_not_exist_would_be_seen() -> None:
    with pytest.raises(ValueError, match="prot"):
        Settings(**fill(tomllib.loads("prot = 8100")))


def test_json_is_json(subtests: pytest.Subtests) -> None:
    assert len(blocks_in("json")) > 50
    for block in blocks_in("json"):
        with subtests.test(block.name):
            # A list or an object may go on where the document does not.
            json.loads(re.sub(rf",?\s*{ELLIPSIS}\s*(?=[}}\]])", "", block.text))


def test_requests_have_a_line_headers_and_a_body(subtests: pytest.Subtests) -> None:
    for block in blocks_in("http"):
        with subtests.test(block.name):
            head, _, body = block.text.partition("\n\n")
            line, *headers = head.splitlines()

            assert re.fullmatch(r"(GET|POST|PUT|DELETE) /\S* HTTP/1\.1", line)
            assert all(re.fullmatch(r"[A-Za-z-]+: \S.*", header) for header in headers)
            json.loads(re.sub(rf"\s*{ELLIPSIS},?", "", body))


def test_the_proxy_has_balanced_blocks_and_known_directives(subtests: pytest.Subtests) -> None:
    for block in blocks_in("nginx"):
        with subtests.test(block.name):
            lines = [line.partition("#")[0].strip() for line in block.text.splitlines()]
            ends = {line[-1] for line in lines if line}

            assert block.text.count("{") == block.text.count("}")
            assert ends <= {"{", "}", ";"}
            assert "proxy_pass http://127.0.0.1:8100;" in lines


def fill(table: dict[str, Any]) -> dict[str, Any]:
    """Put something that works where the document leaves a value out."""
    return {name: _filled(value, name, table) for name, value in table.items()}


def _filled(value: Any, name: str, table: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return fill(value)
    if isinstance(value, list):
        return [_filled(one, name, table) for one in value]
    if not isinstance(value, str) or ELLIPSIS not in value:
        return value
    provider = table.get("provider", "")
    if provider in providers.BUILTIN:
        return make_simulator(provider).settings().get(name, value.replace(ELLIPSIS, A_WORD))
    return value.replace(ELLIPSIS, A_WORD)
