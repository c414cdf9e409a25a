"""What support staff see of deliveries that were sent again, or made again from their event."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from mailonce.core.ids import minted_ms, private
from mailonce.core.moment import moment
from mailonce.edge.cli.events import timeline_rows
from mailonce.edge.cli.main import app
from tests.commands import Shell
from tests.endpoint import Endpoint, answers, in_turn, running_endpoint
from tests.servers import wait_for

ANN = "ann@example.net"
BOUNCE = {
    "RecordType": "Bounce", "Type": "HardBounce", "TypeCode": 1, "ID": 1, "Email": ANN,
    "MessageID": "m-1", "BouncedAt": "2026-01-01T01:00:00Z",
}  # fmt: skip
SETTINGS = """
[sources.pm]
provider = "postmark"
basic = "u:p"
[routes.crm]
url = "{url}/crm"
[routes.tickets]
url = "{url}/tickets"
[routes.late]
url = "{url}/late"
[net]
allow_hosts = ["127.0.0.1"]
"""


@dataclass(frozen=True)
class Desk:
    """A server whose routes were sent one event; `tickets` got it twice, and once reprocessed."""

    shell: Shell
    endpoint: Endpoint
    sent: dict[str, Any]
    made: dict[str, Any]
    other: dict[str, Any]

    @property
    def all(self) -> list[dict[str, Any]]:
        return [self.other, self.sent, self.made]

    def show(self, id_: str) -> dict[str, str]:
        """The fields of `delivery show`, by name."""
        out = self.shell.ok("delivery", "show", id_).out.partition("\nbody")[0]
        pairs = (re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    shell = Shell(tmp_path_factory.mktemp("again"))
    with running_endpoint(late=in_turn(answers(422), answers(200))) as endpoint:
        settings = SETTINGS.format(url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            done = httpx.post(f"{url}/in/pm", json=BOUNCE, auth=("u", "p"))
            assert done.status_code == 200
            wait_for(lambda: _delivered(shell) == 2, what="the deliveries")
            [sent] = _deliveries(shell, "--route", "tickets")
            shell.ok("redeliver", sent["id"])
            shell.ok("reprocess", sent["event"], "--route", "tickets")
            wait_for(lambda: _delivered(shell) == 3, what="what was made again")
            made = next(one for one in _deliveries(shell) if one["reprocessing"])
            [sent] = [one for one in _deliveries(shell) if one["id"] == sent["id"]]
            [other] = _deliveries(shell, "--route", "crm")
            yield Desk(shell, endpoint, sent, made, other)


def _deliveries(shell: Shell, *options: str) -> list[Any]:
    rows: list[Any] = shell.ok("delivery", "list", *options, "--json").json["data"]
    return rows


def _delivered(shell: Shell) -> int:
    return len([one for one in _deliveries(shell) if one["state"] == "delivered"])


def test_one_that_was_made_again_is_no_unexplained_copy(desk: Desk) -> None:
    listed = desk.shell.run_on_a_terminal("delivery", "list", columns=80).out
    lines = re.sub(r"\x1b\[[0-9;]*m", "", listed).splitlines()
    rows = re.split(r"^(?=20)", "\n".join(lines), flags=re.MULTILINE)[1:]
    states = [
        re.findall(r"\bdelivered(?:, \w+)?", row)
        for one in desk.all
        for row in rows
        if one["id"] in row
    ]
    rerun = minted_ms(private("rpr", desk.made["reprocessing"]))

    assert lines[0].startswith("received ")
    assert max(map(len, lines)) <= 80
    assert states == [["delivered"], ["delivered, redelivered"], ["delivered, reprocessed"]]
    assert len({one["received_at"] for one in desk.all}) == 1
    assert [one["made_at"] for one in desk.all] == [
        desk.sent["received_at"], desk.sent["received_at"], moment(rerun),
    ]  # fmt: skip


def test_a_delivery_is_found_by_the_key_that_its_endpoint_received_and_shown_with_it(
    desk: Desk,
) -> None:
    first = desk.endpoint.at("/crm")[0]
    help_ = CliRunner().invoke(app, ["delivery", "show", "--help"]).stdout

    shown = desk.show(first.key)

    assert shown["key"] == first.key
    assert "X-Idempotency-Key" in help_


def test_what_was_dismissed_and_delivered_afterwards_did_not_fail(desk: Desk) -> None:
    shell = desk.shell
    wait_for(lambda: bool(_deliveries(shell, "--state", "failed")), what="the failure")
    [failed] = _deliveries(shell, "--state", "failed")
    [letter] = shell.ok("dead", "list", "--json").json["data"]
    shell.ok("dead", "dismiss", letter["id"], "--reason", "gone")
    before = shell.ok("undelivered").out
    shell.ok("redeliver", failed["id"])

    shown = shell.ok("dead", "show", letter["id"]).out
    [delivered] = _deliveries(shell, "--route", "late")
    message = shell.ok("message", "m-1", "--json").json
    entries = {one["id"]: one for one in message["recipients"][0]["timeline"]}

    assert "1 failed and was dismissed" in before
    assert shell.ok("undelivered").out.strip() == "everything is delivered"
    assert "dismissed by" in shown
    # It was delivered once, whatever was tried before.
    assert entries[failed["id"]]["first_delivered_at"] == delivered["done_at"]
    assert re.search(rf"^delivered at +{delivered['done_at'][:10]}", shown, re.MULTILINE), shown


def test_a_timeline_has_the_first_delivery_and_the_redelivery_in_the_order_of_time(
    desk: Desk,
) -> None:
    shown = desk.shell.ok("message", "m-1").out
    rows = [re.split(r"\s{2,}", line) for line in shown.splitlines() if "→" in line]
    ids = [next((word for word in row if word.startswith("dlv_")), None) for row in rows]
    pairs = zip(rows, ids, strict=True)
    tickets = [(row[1], id_) for row, id_ in pairs if id_ and "tickets" in row[1]]

    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert tickets == [
        ("→ tickets: delivered", desk.sent["id"]),
        ("→ tickets: delivered again", desk.sent["id"]),
        ("→ tickets: delivered", desk.made["id"]),
    ]


def _entry(route: str, *, first: str, done: str | None, since: str | None = None) -> dict[str, Any]:
    """An entry of a timeline, as the API gives it."""
    return {
        "kind": "delivery", "id": f"dlv_{route}", "route": "rte_1", "route_name": route,
        "state": "delivered" if done else "pending", "attempts": 1, "status": 200, "error": None,
        "made_at": "12:00:00", "first_delivered_at": first, "done_at": done,
        "pending_since": since, "route_on": True, "endpoint_down": False, "next_attempt_at": None,
    }  # fmt: skip


def test_deliveries_of_one_event_stand_by_time_whatever_their_routes() -> None:
    sent = _entry("crm", first="12:00:01", done="12:00:09")
    other = _entry("tickets", first="12:00:05", done="12:00:05")
    waits = _entry("audit", first="12:00:02", done=None, since="12:00:07")
    event = {"kind": "event", "id": "evt_1", "type": "bounced"}

    rows = timeline_rows([event, sent, other, waits, event])

    assert [(row.get("when"), row["what"]) for row in rows] == [
        (None, "bounced"),
        ("12:00:01", "→ crm: delivered"),
        ("12:00:02", "→ audit: delivered"),
        ("12:00:05", "→ tickets: delivered"),
        ("12:00:07", "→ audit: pending"),
        ("12:00:09", "→ crm: delivered again"),
        (None, "bounced"),
    ]
