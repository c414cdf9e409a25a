import json
from pathlib import Path

from jsonschema import Draft202012Validator

from mailonce.core.mail.message_schema import message_schema

PUBLISHED = Path(__file__).parents[3] / "docs/schemas/mailonce.message.1.json"


def test_the_schema_is_one_and_is_what_the_docs_publish() -> None:
    Draft202012Validator.check_schema(message_schema())

    assert json.loads(PUBLISHED.read_text()) == message_schema()
