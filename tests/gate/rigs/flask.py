"""Flask, over the stores that its users have."""

import asyncio
from collections.abc import Callable
from typing import Any

from flask import Flask, g
from flask.typing import ResponseReturnValue

from mailonce.gate import Gate, Request, Response
from mailonce.gate.adapters.flask import gated
from mailonce.gate.store_contract import Store
from tests.gate.places import ORDER
from tests.gate.rigs.contract import Kind, Setting, url_of
from tests.gate.rigs.plain import psycopg_store, sqlite_store


class FlaskRig:
    """An app, and its test client in a thread."""

    def __init__(self, setting: Setting, store: Store[Any]) -> None:
        app = Flask(__name__)
        gate = Gate(store, setting.policy, mode=setting.mode)

        @app.route("/hooks", methods=["GET", "POST"])
        @gated(gate)
        def receive() -> ResponseReturnValue:
            if setting.mode == "lease":
                made = setting.shop.serve(lambda _: setting.place.query(ORDER))
            else:
                made = setting.shop.serve(lambda _: g.passage.tx.execute(ORDER))
            return made.body, made.status, list(made.headers)

        self._app = app

    async def send(self, request: Request) -> Response:
        return await asyncio.to_thread(self._send, request)

    async def close(self) -> None:
        pass

    def _send(self, request: Request) -> Response:
        response = self._app.test_client().open(
            url_of(request), method=request.method, headers=list(request.headers), data=request.body
        )
        return Response(response.status_code, response.get_data(), tuple(response.headers.items()))


def flask(store: Callable[[Setting], Store[Any]]) -> Callable[[Setting], FlaskRig]:
    return lambda setting: FlaskRig(setting, store(setting))


RIGS = [
    Kind(name="flask-sqlite3", build=flask(sqlite_store), dialects=("sqlite",)),
    Kind(name="flask-psycopg", build=flask(psycopg_store), dialects=("postgresql",)),
]
