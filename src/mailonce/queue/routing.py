"""Make, change, switch and rotate routes: what a person does to them."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from mailonce.clock import Clock
from mailonce.core.access import Caller
from mailonce.core.route import Route, RouteKind, RouteSecret, check_route
from mailonce.core.route_secret import Signing, rotated, secret_for
from mailonce.core.seal import Sealer
from mailonce.core.signing import SECRET_BYTES, check_secret
from mailonce.errors import ClashError, ConfigError, MissingError, RefusedError
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.store import routes
from mailonce.store.dialects.contract import Database

# Where a route's settings come from; a secret that stands in the file is changed there.
API = "api"
FILE = "file"
APP = "app"
SEALED_BY_FILE = "file, and its secret"


class PutRoute(NamedTuple):
    """A route as it stands, and the secret that was made for it: it is told once."""

    route: Route
    secret: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The routes of every workspace; a change is seen by every process at its next batch."""

    database: Database
    clock: Clock
    sealer: Sealer
    client: GuardedClient
    configuration: ConfigurationCache
    window_days: int

    def list_of(self, caller: Caller) -> list[Route]:
        """List the routes of the caller's workspace, as last read."""
        known = self.configuration.snapshot.routes.values()
        return [route for route in known if route.workspace == caller.workspace]

    def find(self, caller: Caller, id_or_name: str) -> Route:
        """Find a route of the caller's workspace.

        Raises: MissingError.
        """
        for route in self.list_of(caller):
            if id_or_name in {route.id, route.name}:
                return route
        raise MissingError(f"there is no route {id_or_name[:80]!r}; see GET /v1/routes")

    def id_of(self, caller: Caller, id_or_name: str | None) -> str | None:
        """Turn a route's name into its id; an id stays, even that of a deleted route."""
        named = (one.id for one in self.list_of(caller) if one.name == id_or_name)
        return next(named, id_or_name)

    async def put(self, route: Route, *, origin: str, signing: Signing = Signing.HMAC) -> PutRoute:
        """Make or change a route, after checking that it can work.

        Its sources may be names or ids. Its secrets stay unless new ones are given, and whether
        it is on stays, too.

        Raises: ConfigError with what is wrong, ClashError where the name is taken.
        """
        self._check(route)
        known = self.configuration.snapshot.routes.get(route.id)
        made = None
        secrets = route.secrets or (() if known is None else known.secrets)
        if not secrets and route.kind is RouteKind.WEBHOOK:
            made = secret_for(signing, self.clock.chance(SECRET_BYTES))
            secrets = (RouteSecret(made),)
        ids = tuple(self._source_id(route, source) for source in route.sources)
        off = None if known is None else known.off
        route = replace(route, sources=ids, secrets=secrets, off=off)
        if route != known:
            await self._write(route, origin)
        return PutRoute(route, made)

    async def remove(self, caller: Caller, id_or_name: str) -> None:
        """Delete a route; what is still owed to it becomes dead letters."""
        route = self.find(caller, id_or_name)
        await self.database.write(lambda tx: routes.remove(tx, caller.workspace, route.id))
        await self.configuration.reload()

    async def switch(self, caller: Caller, id_or_name: str, *, off: str | None) -> Route:
        """Switch a route off for a reason, or on again; meanwhile it goes on being owed."""
        route = self.find(caller, id_or_name)
        now_ms = self.clock.now_ms()
        await self.database.write(lambda tx: routes.switch(tx, route.id, off=off, now_ms=now_ms))
        await self.configuration.reload()
        return self.find(caller, route.id)

    async def rotate(
        self, caller: Caller, id_or_name: str, *, signing: Signing, overlap_s: int
    ) -> PutRoute:
        """Give a route a new secret; the old one signs along until the overlap ends."""
        route = self.find(caller, id_or_name)
        if route.kind is not RouteKind.WEBHOOK:
            raise RefusedError(f"route {route.name!r} posts nothing, so there is nothing to sign")
        origin = await self.database.read(lambda tx: routes.origin_of(tx, route.id))
        if origin == SEALED_BY_FILE:
            raise RefusedError(
                f"the secret of route {route.name!r} stands in the settings file; "
                "list the new one before the old one there, and restart"
            )
        made = secret_for(signing, self.clock.chance(SECRET_BYTES))
        now_ms = self.clock.now_ms()
        secrets = rotated(route.secrets, made, now_ms=now_ms, overlap_s=overlap_s)
        route = replace(route, secrets=secrets)
        await self._write(route, origin or API)
        return PutRoute(route, made)

    def _check(self, route: Route) -> None:
        check_route(route, window_s=self.window_days * 86_400)
        for secret in route.secrets:
            try:
                check_secret(secret.value)
            except ConfigError as error:
                raise ConfigError(f"route {route.name!r}: {error}") from error
        if route.kind is RouteKind.WEBHOOK:
            try:
                self.client.check(route.url)
            except RefusedError as error:
                raise ConfigError(f"route {route.name!r}: `url`: {error}") from error
        for other in self.configuration.snapshot.routes.values():
            same_name = (other.workspace, other.name) == (route.workspace, route.name)
            if same_name and other.id != route.id:
                raise ClashError(f"there is a route {route.name!r} already; choose another name")

    def _source_id(self, route: Route, id_or_name: str) -> str:
        for source in self.configuration.snapshot.sources.values():
            if source.workspace == route.workspace and id_or_name in {source.id, source.name}:
                return source.id
        raise ConfigError(f"route {route.name!r}: there is no source {id_or_name[:80]!r}; add it")

    async def _write(self, route: Route, origin: str) -> None:
        now_ms = self.clock.now_ms()
        await self.database.write(
            lambda tx: routes.put(
                tx, route, self.sealer, origin=origin, now_ms=now_ms, chance=self.clock.chance
            )
        )
        await self.configuration.reload()
