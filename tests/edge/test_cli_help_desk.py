"""What a help desk reads: removed routes, endpoints that are down, and what can be done then."""

from collections.abc import Iterator

import httpx
import pytest

from tests.commands import Shell
from tests.servers import free_port, wait_for

ANN = "ann@example.net"
SETTINGS = """
[sources.pm]
provider = "postmark"
basic = "u:p"
[routes.down]
url = "http://127.0.0.1:{port}/"
[net]
allow_hosts = ["127.0.0.1"]
[worker]
breaker_failures = 1
breaker_wait_s = 60
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server whose only endpoint is down, so that two bounces wait for it."""
    shell = Shell(tmp_path_factory.mktemp("desk"))
    settings = SETTINGS.format(port=free_port())
    (shell.folder / "mailonce.toml").write_text(settings)
    with shell.serving() as url:
        for number in (1, 2):
            _bounce(url, number)
        wait_for(
            lambda: [one["endpoint_down"] for one in _deliveries(shell)] == [True, True],
            what="the endpoint to be taken as down",
        )
        yield shell


def _bounce(url: str, number: int) -> None:
    bounce = {
        "RecordType": "Bounce", "Type": "HardBounce", "TypeCode": 1, "ID": number, "Email": ANN,
        "MessageID": f"m-{number}", "BouncedAt": f"2026-01-01T01:00:0{number}Z",
    }  # fmt: skip
    assert httpx.post(f"{url}/in/pm", json=bounce, auth=("u", "p")).status_code == 200


def _deliveries(shell: Shell) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = shell.ok("delivery", "list", "--json").json["data"]
    return rows


def test_one_that_waits_for_an_endpoint_is_not_promised_the_attempt_of_another(
    shell: Shell,
) -> None:
    first, second = _deliveries(shell)
    listed = shell.ok("undelivered").out
    message = shell.ok("message", "m-1").out
    refused = shell.run("redeliver", "--recipient", ANN).err
    of_type = shell.ok("redeliver", "--type", "bounced", "--dry-run").out
    by_route = shell.ok("redeliver", "--route", "down", "--dry-run").out

    assert listed.count("Z or later") == 2, listed
    assert "one delivery of its route is tried at a time" in listed
    for one in (first, second):
        shown = shell.ok("delivery", "show", one["id"]).out
        assert "Z or later" in shown
        assert "which may be another" in shown
    assert "endpoint down, next attempt 20" in message
    assert "Z or later" in message
    for words in (refused, of_type, by_route):
        assert "--state pending makes none of them quicker" in words
        assert "sends them now" not in words


def test_what_is_left_of_a_removed_route_has_its_name_and_no_useless_advice(shell: Shell) -> None:
    route = _deliveries(shell)[0]["route"]
    shell.ok("route", "remove", "down")
    wait_for(
        lambda: {one["state"] for one in _deliveries(shell)} == {"failed"}, what="both to fail"
    )
    one = _deliveries(shell)[0]["id"]
    listed = shell.ok("undelivered").out

    for command in (
        ["undelivered"], ["dead", "list"], ["delivery", "list"], ["delivery", "show", one],
        ["message", "m-1"], ["recipient", ANN],
    ):  # fmt: skip
        assert "down (removed)" in shell.ok(*command).out, command
    assert "route None" not in listed
    assert f"`mailonce dead dismiss --route {route} --reason …`" in listed
    assert "mailonce redeliver" not in shell.ok("delivery", "show", one).out
    assert "its route was removed" in shell.ok("delivery", "show", one).out
    assert [
        row["object"] for row in shell.ok("audit", "--object", route, "--json").json["data"]
    ] == [f"down ({route})"]
    shell.ok("dead", "dismiss", "--route", route, "--reason", "moved", "--yes")
    assert "nothing waits" in shell.ok("undelivered").out
