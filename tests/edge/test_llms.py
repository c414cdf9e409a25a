"""`/llms.txt` says what the API's description says, and what an agent needs in full."""

from mailonce.edge.http.expectation_bodies import (
    Confirmation,
    ConsumeRequest,
    NarrowerExpectation,
    NewExpectation,
    ResendRequest,
)
from mailonce.edge.http.llms import describe
from tests.edge.description import api_description

BYTES_MAX = 24_000


def test_every_operation_of_the_description_is_named() -> None:
    openapi = api_description()

    text = describe(openapi)

    operations = [
        f"`{method.upper()} {path}`"
        for path, methods in openapi["paths"].items()
        for method in methods
    ]
    assert len(operations) > 60
    assert [one for one in operations if one not in text] == []
    assert len(text.encode()) < BYTES_MAX


def test_each_field_of_an_expectation_is_api_description() -> None:
    lines = describe(api_description()).splitlines()

    for model in (NewExpectation, NarrowerExpectation, ConsumeRequest, Confirmation, ResendRequest):
        for name, field in model.model_fields.items():
            shown = [line for line in lines if line.startswith(f"  - `{field.alias or name}` (")]
            assert shown, f"{name} of {model.__name__}"
            assert any((field.description or "") in line for line in shown)
    assert any("code | link | state" in line for line in lines)
