"""A log line is read by people, or by programs."""

import traceback

import orjson
import structlog

from mailonce.log_lines import set_traceback_apart


def test_a_traceback_stands_below_its_event_in_lines() -> None:
    try:
        orjson.loads("{")
    except ValueError as error:
        lines = traceback.format_tb(error.__traceback__)
    render = structlog.dev.ConsoleRenderer(colors=False)

    fields = set_traceback_apart(None, "warning", {"event": "handler_failed", "traceback": lines})
    head, *rest = str(render(None, "warning", fields)).splitlines()

    assert head.strip() == "handler_failed"
    assert "".join(f"{line}\n" for line in rest) == "".join(lines)
