"""Sources, routes and senders of a settings file: what a command changes in them does not last."""

from typing import Any

from mailonce.edge.cli.show import Show

# One that a file made has its name in its id.
PREFIXES = {"source": "src", "route": "rte", "sender": "snr"}


def warn_of_file(show: Show, noun: str, record: dict[str, Any]) -> None:
    """Say that a settings file wins; what is no longer there was switched off for that."""
    is_named = record["id"] == f"{PREFIXES[noun]}_{record['name']}"
    if is_named and record["on"]:
        show.say(
            "[yellow]it was made by mailonce.toml, and where it still stands there, the file wins "
            "at the next reload or start, and a variable over the file; change it there[/yellow]"
        )
