"""`/llms.txt`: the API for programs that read, written from the same description as `/docs`.

What an agent needs stands first and in full: expectations, with each field of their bodies. All
other paths are one line each.
"""

from collections.abc import Iterator, Mapping
from typing import Any

FIRST = "expectations"
HEAD = """\
# mailonce

> {summary} Open an expectation before you trigger a mail; wait for it; consume the code or link once; say what became of it.

JSON over HTTP with `Authorization: Bearer KEY`. Errors are `application/problem+json`: `type` ends in a word, and `detail` says what to do.
A key with the scope `agent` may use what stands under "Expectations", but for lists; it never sees the text of a mail.
The whole description is at `/openapi.json`.

1. `POST /v1/expectations` with `{{"kind": "code", "senders": ["@example.com"]}}`; use its `address` where the mail is to go.
2. `GET /v1/expectations/{{id}}?wait=20` until `waiting` is false. Repeat it while it is true.
3. `ready`: `POST /v1/expectations/{{id}}/consume` with `{{"consume_key": "…"}}`, a word of your own that you keep; it may be repeated.
4. `POST /v1/expectations/{{id}}/confirm` with `{{"consume_key": "…", "accepted": true}}`; `false` offers the next value.
5. Nothing came: `POST /v1/expectations/{{id}}/resend`; ask for another mail only where `granted` is true. `GET …/explain` says why nothing matched.
"""  # noqa: E501


def describe(openapi: Mapping[str, Any]) -> str:
    """Write the description of the API as text, from OpenAPI's."""
    schemas: Mapping[str, Any] = openapi["components"]["schemas"]
    lines = [HEAD.format(summary=openapi["info"]["summary"]), "## Expectations", ""]
    others: list[str] = []
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            name = f"`{method.upper()} {path}`"
            if FIRST in operation.get("tags", ()):
                lines += _in_full(name, operation, schemas)
            else:
                others.append(f"- {name}: {operation.get('summary', '')}")
    return "\n".join([*lines, "", "## Optional", "", *others, ""])


def _in_full(name: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    about = " ".join(operation.get("description", "").split())
    yield f"- {name}: {operation['summary']}. {about}".rstrip()
    for one in operation.get("parameters", ()):
        if one["in"] != "path":
            yield f"  - {one['in']} `{one['name']}`: {one.get('description', '')}".rstrip(": ")
    body = operation.get("requestBody")
    if body is not None:
        schema = body["content"]["application/json"]["schema"]
        yield from _fields(schema, schemas)


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    whole = _resolved(schema, schemas)
    required = whole.get("required", ())
    for name, field in whole.get("properties", {}).items():
        note = "" if name in required else ", optional"
        about = field.get("description", "")
        yield f"  - `{name}` ({_type(field, schemas)}{note}): {about}".rstrip(": ")


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    for one in (schema, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        if "$ref" in one:
            named: Mapping[str, Any] = schemas[one["$ref"].rpartition("/")[2]]
            return named
    return schema


def _type(field: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    whole = _resolved(field, schemas)
    if "enum" in whole:
        return " | ".join(whole["enum"])
    if "type" in whole:
        return str(whole["type"])
    kinds = [one.get("type", "object") for one in whole.get("anyOf", ())]
    return " | ".join(kind for kind in kinds if kind != "null") or "object"
