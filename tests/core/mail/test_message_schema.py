import json
from pathlib import Path

from jsonschema import Draft202012Validator

from mailonce.core.mail.message_schema import message_schema

PUBLISHED = Path(__file__).parents[3] / "docs/schemas/mailonce.message.1.json"


def test_the_schema_is_one_and_is_what_the_docs_publish() -> None:
    Draft202012Validator.check_schema(message_schema())

    assert json.loads(PUBLISHED.read_text()) == message_schema()


def test_a_file_is_described_as_a_webhook_brings_it() -> None:
    file = message_schema()["properties"]["attachments"]["items"]

    assert {"url", "content"} <= file["properties"].keys()
    assert not {"url", "content"} & set(file["required"]), "other answers have none"
