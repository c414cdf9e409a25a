"""Routes: where events go; made, changed, switched and rotated."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mailonce.core.access import Caller
from mailonce.core.deliveries.removed_route import put_back_words
from mailonce.core.deliveries.route import Route, RouteKind, RouteSecret, check_route
from mailonce.core.deliveries.route_secret import Signing, rotated, secret_for
from mailonce.core.deliveries.signing import SECRET_BYTES, check_secret
from mailonce.core.ids import public
from mailonce.core.missing_name import missing_name
from mailonce.core.record_origin import (
    API,
    NOT_IN_FILE,
    SEALED_BY_FILE,
    off_when_put,
    origin_when_put,
)
from mailonce.core.signatures.sealing import UNREADABLE
from mailonce.errors import ConfigError, MissingError, RefusedError
from mailonce.handlers import handler_id
from mailonce.manage.managing import Change, Parts, taken_name, too_many
from mailonce.manage.records import changed_route, route_of
from mailonce.settings import RouteSettings
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks, removed_routes, routes, sources
from mailonce.store.dialects.contract import Tx

# What tables show behind the name of a route that was removed.
SHOWN_BEHIND = " (removed)"
# Each route is matched against every event of its workspace.
ROUTES_MAX = 200


class PutRoute(NamedTuple):
    """A stored route, and the secret if one was made for it: it is shown once."""

    route: Route
    secret: str | None


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of every workspace; a change is seen by every process at its next batch."""

    parts: Parts

    def list_of(self, caller: Caller) -> list[Route]:
        """List the routes of the caller's workspace, as last read."""
        known = self.parts.configuration.snapshot.routes.values()
        return [route for route in known if route.workspace == caller.workspace]

    async def find(self, caller: Caller, id_or_name: str) -> Route:
        """Find a route of the caller's workspace.

        Raises: MissingError where, on the database's word, there is none.
        """
        route = await self.parts.find(lambda: self.list_of(caller), id_or_name)
        if route is None:
            removed = await self.parts.database.read(
                lambda tx: removed_routes.removed_id(tx, caller.workspace, id_or_name)
            )
            missing = missing_name("route", id_or_name, (one.name for one in self.list_of(caller)))
            if removed is not None:
                raise MissingError(f"{missing}; it was removed: {put_back_words(id_or_name)}")
            raise missing
        return route

    async def id_of(self, caller: Caller, id_or_name: str | None) -> str | None:
        """Turn a route's name into its id; an id stays, even that of a deleted route.

        Of a route that was removed the audit log has the name; where several had it, the newest.
        It may have the word that tables show behind it.

        Raises: MissingError where it is neither: an empty list would say that all is well.
        """
        if id_or_name is None:
            return None
        route = await self.parts.find(lambda: self.list_of(caller), id_or_name)
        if route is None:
            id_or_name = id_or_name.removesuffix(SHOWN_BEHIND)
        if route is None and not id_or_name.startswith("rte_"):
            removed = await self.parts.database.read(
                lambda tx: removed_routes.removed_id(tx, caller.workspace, id_or_name)
            )
            if removed is not None:
                return removed
            raise missing_name("route", id_or_name, (one.name for one in self.list_of(caller)))
        return id_or_name if route is None else route.id

    async def make(self, caller: Caller, name: str, settings: RouteSettings) -> PutRoute:
        """Make a route; raises what `put` does.

        Under the name of one that was removed it is that route again, with its id: what was left
        of it, such as its dead letters, can be sent to it under the same keys.
        """
        name_object(name)
        id_ = public("rte", self.parts.clock.new_id())
        route = route_of(name, settings, workspace=caller.workspace, id_=id_)
        return await self.parts.put(
            self.prepare(route, origin=API, signing=settings.signing, must_be_new=True)
        )

    async def change(
        self, caller: Caller, id_or_name: str, settings: RouteSettings
    ) -> Change[PutRoute]:
        """Give a route other settings; raises what `put` does."""
        known = await self.find(caller, id_or_name)
        if known.kind is RouteKind.HANDLER:
            raise RefusedError(f"route {known.name!r} is a handler; change it in your own code")
        route = route_of(known.name, settings, workspace=known.workspace, id_=known.id)
        return await self.parts.change_record(
            self.prepare(route, origin=API, signing=settings.signing, must_exist=True)
        )

    async def update(
        self, caller: Caller, id_or_name: str, changes: Mapping[str, Any]
    ) -> Change[PutRoute]:
        """Change some settings of a route; the others, secrets included, stay."""
        known = await self.find(caller, id_or_name)
        _check_readable(known)
        return await self.change(caller, known.id, changed_route(known, changes))

    async def put(
        self,
        route: Route,
        *,
        origin: str,
        signing: Signing = Signing.HMAC,
        must_exist: bool = False,
    ) -> PutRoute:
        """Make or change a route, after checking that it can work.

        Its sources may be names or ids. Its secrets stay unless new ones are given, and whether
        it is on stays, too: both as they stand in the transaction that writes, since another
        process may have changed them since we last read. `must_exist`: a route that somebody
        deleted meanwhile is not made again.

        Raises: ConfigError with what is wrong, ClashError where the name is taken, MissingError.
        """
        return await self.parts.put(
            self.prepare(route, origin=origin, signing=signing, must_exist=must_exist)
        )

    def prepare(
        self,
        given: Route,
        *,
        origin: str,
        signing: Signing = Signing.HMAC,
        must_exist: bool = False,
        must_be_new: bool = False,
        allow_hosts: Iterable[str] | None = None,
    ) -> Callable[[Tx], tuple[PutRoute, bool]]:
        """Check a route, and give what puts it; that also says whether it changed anything.

        `allow_hosts` are those that will be allowed when it is put; default: those that are now.
        `must_be_new`: where one of its name was removed, it gets the id of that one.
        Raises: as `put` does, here or when it runs.
        """
        check_webhook(
            given,
            window_days=self.parts.window_days,
            check_url=lambda url: self.parts.client.check(url, allow_hosts),
        )
        made = secret_for(signing, self.parts.clock.chance(SECRET_BYTES))
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> tuple[PutRoute, bool]:
            locks.take(tx, locks.CONFIGURATION)
            route = _put_back(tx, given) if must_be_new else given
            known = routes.get(tx, route.id, self.parts.sealer)
            if known is not None and must_be_new:
                raise taken_name("route", route.name)
            _check_place(tx, route, known, must_exist=must_exist)
            if known is not None and not route.secrets:
                _check_readable(known)
            secrets, new_secret = route.secrets or (() if known is None else known.secrets), None
            if not secrets and route.kind is RouteKind.WEBHOOK:
                secrets, new_secret = (RouteSecret(made),), made
            ids = tuple(_source_id(tx, route, source) for source in route.sources)
            off = None if known is None else off_when_put(known.off)
            wanted = replace(route, sources=ids, secrets=secrets, off=off)
            stored = routes.origin_of(tx, wanted.id)
            owner = origin_when_put(origin, stored=stored, off=None if known is None else known.off)
            if wanted == known and stored == owner:
                return PutRoute(wanted, new_secret), False
            self._put(tx, wanted, owner, now_ms)
            if off is None:
                routes.switch(tx, wanted.id, off=None, now_ms=now_ms)
            return PutRoute(wanted, new_secret), True

        return work

    async def remove(self, caller: Caller, id_or_name: str) -> Route:
        """Delete a route and give it; its pending deliveries become dead letters."""
        route = await self.find(caller, id_or_name)
        name_object(removed_routes.removal_of(route.name, route.id))
        await self.parts.change(lambda tx: routes.remove(tx, caller.workspace, route.id))
        return route

    async def switch(self, caller: Caller, id_or_name: str, *, off: str | None) -> Route:
        """Switch a route off for a reason, or on again; events for it are kept meanwhile.

        One that the settings file no longer has, and that is switched on, is no longer the file's.
        """
        route = await self.find(caller, id_or_name)
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> None:
            if off is None and route.off == NOT_IN_FILE:
                routes.adopt(tx, route.id, origin=API)
            routes.switch(tx, route.id, off=off, now_ms=now_ms)

        await self.parts.change(work)
        return await self.find(caller, route.id)

    async def rotate(
        self, caller: Caller, id_or_name: str, *, signing: Signing, overlap_s: int
    ) -> PutRoute:
        """Give a route a new secret; both sign until the overlap ends."""
        route_id = (await self.find(caller, id_or_name)).id
        made = secret_for(signing, self.parts.clock.chance(SECRET_BYTES))
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> PutRoute:
            locks.take(tx, locks.CONFIGURATION)
            route = routes.get(tx, route_id, self.parts.sealer)
            if route is None:
                raise missing_name("route", id_or_name, (one.name for one in self.list_of(caller)))
            origin = routes.origin_of(tx, route_id)
            if route.kind is not RouteKind.WEBHOOK:
                raise RefusedError(f"route {route.name!r} posts nothing; there is nothing to sign")
            if origin == SEALED_BY_FILE:
                raise RefusedError(
                    f"the secret of route {route.name!r} stands in the settings file, or in "
                    f"MAILONCE_ROUTES__{route.name.upper()}__SECRET, which wins; list the new one "
                    "before the old one there, and restart"
                )
            _check_readable(route)
            secrets = rotated(route.secrets, made, now_ms=now_ms, overlap_s=overlap_s)
            changed = replace(route, secrets=secrets)
            self._put(tx, changed, origin or API, now_ms)
            return PutRoute(changed, made)

        return await self.parts.change(work)

    def _put(self, tx: Tx, route: Route, origin: str, now_ms: int) -> None:
        sealer, chance = self.parts.sealer, self.parts.clock.chance
        routes.put(tx, route, sealer, origin=origin, now_ms=now_ms, chance=chance)


def check_webhook(route: Route, *, window_days: int, check_url: Callable[[str], None]) -> None:
    """Check that a route can work, as far as can be told without the database.

    `check_url` raises RefusedError where an address may not be called.
    Raises: ConfigError, one sentence that names the setting which is wrong.
    """
    check_route(route, window_s=window_days * 86_400)
    for secret in route.secrets:
        try:
            check_secret(secret.value)
        except ConfigError as error:
            raise ConfigError(f"route {route.name!r}: {error}") from error
    if route.kind is RouteKind.WEBHOOK:
        try:
            check_url(route.url)
        except RefusedError as error:
            raise ConfigError(f"route {route.name!r}: `url`: {error}") from error


def missing_source(route: Route, id_or_name: str) -> ConfigError:
    """Say that a route takes from a source which is not there."""
    return ConfigError(f"route {route.name!r}: there is no source {id_or_name[:80]!r}; add it")


def _put_back(tx: Tx, route: Route) -> Route:
    """Give a new route the id of the one of its name that was removed, if there was one."""
    id_ = removed_routes.free_id(tx, route.workspace, route.name)
    if id_ is None or id_ == handler_id(route.workspace, route.name):
        return route
    return replace(route, id=id_)


def _check_place(tx: Tx, route: Route, known: Route | None, *, must_exist: bool) -> None:
    if known is None and must_exist:
        raise missing_name("route", route.id)
    if routes.other_of_name(tx, route) is not None:
        raise taken_name("route", route.name)
    if known is None and routes.count_of(tx, route.workspace) >= ROUTES_MAX:
        raise too_many("route", ROUTES_MAX)


def _source_id(tx: Tx, route: Route, id_or_name: str) -> str:
    id_ = sources.id_of(tx, route.workspace, id_or_name)
    if id_ is None:
        raise missing_source(route, id_or_name)
    return id_


def _check_readable(route: Route) -> None:
    """Check that a route's secrets can be read here, before new ones replace them."""
    if route.is_unreadable:
        raise ConfigError(f"route {route.name!r}: {UNREADABLE}")
