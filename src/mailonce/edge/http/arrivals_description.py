"""What `/openapi.json` says of `/in/{source}`, which is served without the framework."""

from typing import Any

PATH = "/in/{source}"
_ANSWERS = {
    "200": "Recorded, or recorded before: `accepted`, `duplicate`, `conflict`, `ignored` or "
    "`dead_letter`. Some providers expect another 2xx, and get it.",
    "401": "The signature, password, token or address is wrong; see `GET /v1/refusals`.",
    "404": "There is no such source.",
    "413": "The body is too large.",
    "503": "Nothing was recorded; the provider is to send it again.",
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "status": {"type": "string"},
        "arrival": {
            "type": "string",
            "description": "Its id; `GET /v1/arrivals/{arrival_id}` tells what became of it.",
        },
        "events": {"type": "integer", "description": "Events that the webhook held."},
        "new": {"type": "integer", "description": "Those that were not known before."},
        "detail": {"type": "string", "description": "Why it was refused."},
    },
}
OPERATIONS: dict[str, Any] = {
    "post": {
        "tags": ["webhooks"],
        "summary": "Receive a webhook",
        "description": "The URL to give to a provider. It needs no API key: the provider's own "
        "signature, or the password, token, header or address of the source, proves who sent it.",
        "operationId": "receive_webhook",
        "parameters": [
            {
                "name": "source",
                "in": "path",
                "required": True,
                "description": "The name of a source of the default workspace, or the id of any.",
                "schema": {"type": "string"},
            }
        ],
        "requestBody": {
            "description": "As the provider sends it.",
            "content": {"application/json": {}},
        },
        "responses": {
            status: {"description": text, "content": {"application/json": {"schema": _SCHEMA}}}
            for status, text in _ANSWERS.items()
        },
    }
}
