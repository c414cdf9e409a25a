"""The API's description can be read by itself: whatever it refers to is in it."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from mailonce.edge.http.app import RESOURCES, describe_api
from mailonce.edge.http.query import refuse_unknown
from tests.edge.description import api_description


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def bodies(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the schemas of all JSON objects that requests bring."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            for one in schema.get("anyOf", [schema]):
                name = one.get("$ref", "").rpartition("/")[2]
                found = described["components"]["schemas"][name] if name else one
                if found.get("type") == "object":
                    yield f"{method} {path}", found


def test_no_request_takes_fields_that_it_does_not_know() -> None:
    found = list(bodies(api_description()))

    assert len(found) > 20
    # A misspelt field would be a wish that nobody hears.
    assert [name for name, schema in found if schema.get("additionalProperties") is not False] == []


def test_webhooks_are_described_although_the_framework_does_not_serve_them() -> None:
    described = describe_api(FastAPI(title="mailonce"))

    operation = described["paths"]["/in/{source}"]["post"]
    assert {"200", "401", "404", "413", "503"} == set(operation["responses"])
    assert "no API key" in operation["description"]


def test_whatever_the_description_refers_to_is_in_it() -> None:
    described = api_description()

    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    wanted = set(references(described))
    assert len(wanted) > 20
    assert wanted - known == set()


def test_every_route_of_the_api_refuses_parameters_that_it_does_not_know() -> None:
    routes = [
        (route.path, [one.call for one in route.dependant.dependencies])
        for module in RESOURCES
        for route in module.router.routes
        if isinstance(route, APIRoute)
    ]

    assert len(routes) > 100
    # Links in mail gain parameters on their way, probes add some of their own, files sign theirs.
    assert {path for path, checks in routes if refuse_unknown not in checks} == {
        "/files/{message_id}/{attachment_id}", "/u/{token}", "/healthz", "/readyz", "/metrics",
    }  # fmt: skip
