"""The API's description can be read by itself: whatever it refers to is in it."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from mailonce.edge.http.app import RESOURCES


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_whatever_the_description_refers_to_is_in_it() -> None:
    app = FastAPI()
    for module in RESOURCES:
        app.include_router(module.router)

    described = app.openapi()

    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    wanted = set(references(described))
    assert len(wanted) > 20
    assert wanted - known == set()
