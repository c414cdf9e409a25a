"""What a start would refuse of a settings file; nothing is written, and nobody is asked.

A start stops at the first fault, `mailonce doctor` shows all of them: both go by this list.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from mailonce.core.bounds import NAME_PATTERN
from mailonce.core.health.known_records import KnownRecords
from mailonce.core.sends.sender import Sender
from mailonce.errors import ConfigError, MailonceError
from mailonce.manage.managing import taken_name, too_many
from mailonce.manage.records import route_of, sender_of, source_of
from mailonce.manage.routes import ROUTES_MAX, check_webhook, missing_source
from mailonce.manage.senders import SENDERS_MAX, check_chain, check_sender, other_provider
from mailonce.manage.sources import SOURCES_MAX, check_source
from mailonce.net.address_guard import check_url
from mailonce.settings import Settings


def faults_of_records(settings: Settings) -> Iterator[ConfigError]:
    """Find what is wrong with the sources, routes and senders of the file by themselves."""
    for part in ("sources", "routes", "senders"):
        for name in getattr(settings, part):
            if not re.fullmatch(NAME_PATTERN, name):
                yield ConfigError(
                    f"`{part}` has the name {name[:80]!r}; use letters, digits, '.', '_' and '-'"
                )
    for check in _checks(settings):
        try:
            check()
        except ConfigError as error:
            yield error


def faults_of_places(settings: Settings, known: KnownRecords) -> Iterator[MailonceError]:
    """Find what does not fit to the records that the database has."""
    sources = {f"src_{name}": name for name in settings.sources} | dict(known.sources)
    for name, given in settings.routes.items():
        route = route_of(name, given)
        for one in route.sources:
            if one not in sources and one not in sources.values():
                yield missing_source(route, one)
    nouns = (
        ("source", "src", settings.sources, known.sources, SOURCES_MAX),
        ("route", "rte", settings.routes, known.routes, ROUTES_MAX),
        ("sender", "snr", settings.senders, known.sender_names, SENDERS_MAX),
    )
    for noun, prefix, records, stored, most in nouns:
        others = {name for id_, name in stored.items() if id_ != f"{prefix}_{name}"}
        for name in records:
            if name in others:
                yield taken_name(noun, name)
        added = {f"{prefix}_{name}" for name in records} - stored.keys()
        # More than that may stand since an earlier version: only one that is added is refused.
        if added and len(added) + len(stored) > most:
            yield too_many(noun, most)
    yield from _faults_of_senders(settings, known)


def _faults_of_senders(settings: Settings, known: KnownRecords) -> Iterator[ConfigError]:
    """Find senders of the file that changed their provider, or close a circle with stored ones."""
    senders = [sender_of(name, one) for name, one in settings.senders.items()]
    next_senders = {one.name: one.next_sender for one in known.senders.values()}
    next_senders |= {one.name: one.next_sender for one in senders}
    for sender in senders:
        stored = known.senders.get(sender.id)
        if stored is not None and stored.provider != sender.provider:
            yield other_provider(sender, stored.provider)
        try:
            check_chain(sender, next_senders)
        except ConfigError as error:
            yield error


def _checks(settings: Settings) -> Iterator[Callable[[], None]]:
    days = settings.window_days
    for name, source in settings.sources.items():
        yield partial(check_source, source_of(name, source), window_days=days)
    allowed = (*settings.net.allow_hosts, *settings.net.hosts)

    def check_address(url: str) -> None:
        check_url(url, allowed)

    for name, route in settings.routes.items():
        yield partial(
            check_webhook, route_of(name, route), window_days=days, check_url=check_address
        )
    senders: list[Sender] = []
    for name, one in settings.senders.items():
        senders.append(sender_of(name, one))
        yield partial(check_sender, senders[-1])
    next_senders = {one.name: one.next_sender for one in senders}
    for sender in senders:
        yield partial(check_chain, sender, next_senders)
