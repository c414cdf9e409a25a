"""What a start would refuse of this machine: its data folder, handlers, certificate, addresses.

`mailonce doctor` calls what `mailonce serve` does, and gives back what it took.
"""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial

from mailonce.edge.cli import serve_smtp
from mailonce.edge.cli.listeners import PORT_OPTION, bind
from mailonce.edge.smtp.door import check_door
from mailonce.errors import ConfigError
from mailonce.handlers import load_handlers
from mailonce.manage.data_folder import check_folder
from mailonce.manage.master_key import check_master_key
from mailonce.settings import Role, Settings
from mailonce.tls import client_context


def faults_of_folder(settings: Settings) -> Iterator[ConfigError]:
    """Find what is wrong with the data folder, and with the master key in it."""
    yield from _faults(
        [partial(check_folder, settings.data_dir), partial(check_master_key, settings)]
    )


def faults_of_files(settings: Settings) -> Iterator[ConfigError]:
    """Find what is wrong with files that a process names from where it was started."""
    checks: list[Callable[[], object]] = [partial(client_context, settings.net.ca_file)]
    if settings.app:
        checks.append(partial(_import_quietly, settings.app))
    if settings.has_role(Role.SMTP):
        checks.append(partial(check_door, settings.smtp))
    yield from _faults(checks)


def faults_of_addresses(settings: Settings) -> Iterator[ConfigError]:
    """Find addresses on which this machine cannot listen; no port is kept.

    One that is taken is no fault of the settings: a restored backup is looked at beside its server.
    """
    checks: list[Callable[[], object]] = [
        partial(_try_address, settings.host, settings.port, PORT_OPTION)
    ]
    host, smtp = settings.smtp_host, settings.smtp
    if serve_smtp.is_chosen(settings):
        checks.append(partial(_try_address, host, smtp.port, serve_smtp.PORT_OPTION))
        if smtp.tls_port is not None:
            checks.append(partial(_try_address, host, smtp.tls_port, serve_smtp.TLS_PORT_OPTION))
    yield from _faults(checks)


def _import_quietly(app: str) -> None:
    """Import handlers; what their module prints is no part of doctor's answer."""
    with redirect_stdout(sys.stderr):
        load_handlers(app)


def _try_address(host: str, port: int, option: str) -> None:
    try:
        bind(host, port, option=option).close()
    except ConfigError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
            raise


def _faults(checks: list[Callable[[], object]]) -> Iterator[ConfigError]:
    for check in checks:
        try:
            check()
        except ConfigError as error:
            yield error
