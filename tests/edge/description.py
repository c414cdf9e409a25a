"""The API's description, made once for all tests that read it."""

from functools import cache
from typing import Any

from fastapi import FastAPI

from mailonce.edge.http.app import RESOURCES


@cache
def api_description() -> dict[str, Any]:
    """Describe every resource; do not change what it gives."""
    app = FastAPI(title="mailonce", summary="One email event, one outcome.")
    for module in RESOURCES:
        app.router.routes.extend(module.router.routes)
    return app.openapi()
