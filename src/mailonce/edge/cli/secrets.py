"""Secrets that were made for the operator: shown once, and how to make another."""

from rich.console import Console

ADMIN_KEY_HINT = "(lost? `mailonce key add --scope admin` makes another, on this machine)"


def show_secret(what: str, secret: str) -> None:
    """Print a secret as soon as it is made: what fails after that must not cost it."""
    hint = f" {ADMIN_KEY_HINT}" if what == "admin key" else ""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{what}, shown this once: [bold]{secret}[/bold]{hint}")
