"""Django, over the store of its own ORM."""

import asyncio
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from mailonce.gate import Gate, Request, Response
from mailonce.gate.adapters.django import gated
from mailonce.gate.stores.django import DjangoStore
from tests.gate.places import ORDER, Place
from tests.gate.rigs.contract import Kind, Setting, url_of
from tests.gate.rigs.plain import FAULT
from tests.gate.shop import HandlerError

_numbers = count()


def set_up() -> None:
    """Configure Django once in a process; databases are added as tests need them."""
    if not settings.configured:
        settings.configure(
            DATABASES={"default": {}},
            INSTALLED_APPS=["mailonce.gate.django"],
            ALLOWED_HOSTS=["testserver"],
            USE_TZ=True,
        )
        django.setup()


def add_database(place: Place) -> str:
    """Make a place known to Django; give its alias."""
    alias = f"place_{next(_numbers)}"
    entry: dict[str, Any] = {"ENGINE": f"django.db.backends.{place.dialect}", "NAME": place.url}
    if place.dialect == "sqlite":
        entry = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": place.url,
            "OPTIONS": {"timeout": 1},
        }
    else:
        parts = urlsplit(place.url)
        entry |= {
            "NAME": parts.path[1:],
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
        }
    whole = connections.configure_settings({"default": {}, alias: entry})
    connections.settings[alias] = whole[alias]
    return alias


class DjangoRig:
    """A view behind the gate; each request in a thread, as a server of Django's has it."""

    def __init__(self, setting: Setting) -> None:
        set_up()
        self._alias = add_database(setting.place)
        self._setting = setting
        gate = Gate(
            DjangoStore(self._alias, table=setting.table), setting.policy, mode=setting.mode
        )
        self._view = gated(gate)(self._receive)

    async def send(self, request: Request) -> Response:
        return await asyncio.to_thread(self._send, request)

    async def close(self) -> None:
        pass

    def _receive(self, request: HttpRequest) -> HttpResponse:
        del request
        setting = self._setting
        if setting.mode == "lease":
            made = setting.shop.serve(lambda _: setting.place.query(ORDER))
        else:
            connection = connections[self._alias]
            made = setting.shop.serve(lambda _: connection.cursor().execute(ORDER))
        return HttpResponse(made.body, status=made.status, headers=dict(made.headers))

    def _send(self, request: Request) -> Response:
        posted = RequestFactory().generic(
            request.method, url_of(request), request.body, headers=dict(request.headers)
        )
        try:
            response = self._view(posted)
        except HandlerError:
            return FAULT
        finally:
            connections[self._alias].close()
        assert isinstance(response, HttpResponse)
        return Response(response.status_code, response.content, tuple(response.items()))


RIGS = [Kind(name="django", build=DjangoRig, dialects=("sqlite", "postgresql"))]
