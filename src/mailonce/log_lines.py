"""How the log leaves the process: each event is one line on standard error, those of libraries too.

What libraries log, warnings, and exceptions that nobody caught become events like ours. An outage
of the database is left to the loops that meet it: they log when it begins and when it has ended,
where drivers write a traceback for each connection and each try.
"""

import logging
import sys
import threading
import warnings
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, TextIO

import structlog

from mailonce.telemetry import LIBRARY_LOG, UNEXPECTED, log

# Whose words on a connection that broke, or cannot be made, tell nothing new.
DRIVERS = ("asyncpg", "sqlalchemy.pool")
# SQLSTATE classes of a connection that broke, and of a server that starts or stops.
OUTAGES = ("08", "57P")


def start_logging(*, json: bool, level: str = "info") -> None:
    """Send log events to standard error, one line each, from this level on."""
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]
        if json
        else [set_traceback_apart, structlog.dev.ConsoleRenderer(colors=False)]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    # Of a program that embeds us and has set up logging, libraries are its own business.
    logging.lastResort = _LibraryHandler(logging.WARNING)
    warnings.showwarning = _show_warning
    sys.excepthook = _log_uncaught if json else sys.__excepthook__
    threading.excepthook = _log_in_thread if json else threading.__excepthook__
    sys.unraisablehook = _log_unraisable if json else sys.__unraisablehook__


def set_traceback_apart(
    logger: object,  # noqa: ARG001
    name: str,  # noqa: ARG001
    fields: MutableMapping[str, Any],
) -> MutableMapping[str, Any]:
    """Let a traceback stand below its event, in lines as Python prints them."""
    if lines := fields.pop("traceback", None):
        fields["exception"] = "".join(lines).rstrip()
    return fields


class _LibraryHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Makes log events of what libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not _is_outage(record):
                words = " ".join(record.getMessage().split())
                log.log(
                    record.levelno, LIBRARY_LOG,
                    logger=record.name, detail=words, exc_info=record.exc_info,
                )  # fmt: skip
        except Exception:  # noqa: BLE001 - as every handler: a log line breaks nobody's work
            self.handleError(record)


def _is_outage(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    state = getattr(error, "sqlstate", None) or ""
    is_lost = isinstance(error, OSError) or state.startswith(OUTAGES)
    return is_lost and record.name.startswith(DRIVERS)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    where = f"{filename}:{lineno}"
    log.warning(LIBRARY_LOG, logger=category.__name__, detail=str(message), where=where)


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    log.critical(UNEXPECTED, where="process", error=kind.__name__, exc_info=(kind, error, trace))


def _log_in_thread(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None:
        name = caught.thread.name if caught.thread else "thread"
        error = caught.exc_type.__name__
        log.critical(UNEXPECTED, where=name, error=error, exc_info=caught.exc_value)


def _log_unraisable(caught: "sys.UnraisableHookArgs") -> None:
    error = caught.exc_type.__name__
    log.error(UNEXPECTED, where="process", error=error, exc_info=caught.exc_value)
