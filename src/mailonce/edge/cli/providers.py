"""`mailonce providers`: which mail services are understood."""

from typing import Annotated, Any

import typer

from mailonce.core.nearest_name import did_you_mean
from mailonce.edge.cli.show import Column, Show
from mailonce.errors import ConfigError
from mailonce.views import providers as known

COLUMNS = (
    Column("name", "name", whole=True),
    Column("service", "title"),
    Column("signs with", "signs"),
    Column("retries for", "retries"),
    Column("mail in", "mail"),
)
SETTINGS = {"secrets": "secret", "public_keys": "public_key"}
FIELDS = (
    "title", "name", "docs", "signs", "signs_body", "freshness_s", "retries", "types", "event_id",
    "recipes", "codes", "inbound",
)  # fmt: skip


def providers(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="one of them, in full")] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="output JSON")] = False,
) -> None:
    """List the providers whose webhooks are understood, or show one."""
    show = Show(json=json)
    records: list[dict[str, Any]] = [dict(one) for one in known.list_providers()]
    if name is None:
        if not show.answer({"data": records, "next": None}):
            show.table(COLUMNS, [_row(record) for record in records])
        return
    record = next((one for one in records if one["name"] == name), None)
    if record is None:
        names = [one["name"] for one in records]
        advice = did_you_mean(name, names, otherwise=f"choose one of {', '.join(names)}")
        raise ConfigError(f"there is no provider {name!r}; {advice}")
    show.fields(record if json else _row(record), FIELDS)


def _row(record: dict[str, Any]) -> dict[str, Any]:
    hours = record["retry_horizon_s"] / 3600
    span = f"{hours:g} h" if hours < 48 else f"{hours / 24:.3g} days"
    signs = [SETTINGS.get(one, one) for one in record["signs"]]
    return {
        **record,
        "signs": signs or "nothing: use basic, token, header or allow_ips",
        "retries": f"{span}, if not refused" if record["codes"]["refused_is_final"] else span,
        "mail": record["inbound"] is not None,
    }
