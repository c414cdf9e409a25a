"""Who did it: changes by commands, keys and the settings file."""

import getpass
from pathlib import Path

from tests.commands import ADMIN_KEY, Shell


def test_every_change_says_who_what_and_on_what(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "mailonce.toml").write_text(
        '[sources.filed]\nprovider = "postmark"\nbasic = "user:a long password"\n'
    )
    with shell.serving() as url:
        ann = shell.ok("key", "add", "--scope", "operator", "--name", "ann", "--json").json
        shell.ok("suppression", "add", "bob@example.net", "--url", url, "--key", ann["key"])
        shell.ok("suppression", "lift", "bob@example.net", "--yes")
        lifted = shell.ok("recipient", "bob@example.net").out
        shell.ok("source", "add", "main", "--provider", "postmark", "--token", "a" * 32)
        shell.ok("source", "remove", "main", "--yes")
        shell.ok("key", "revoke", "ann", "--yes")
        # Nothing was changed by these.
        shell.run("source", "remove", "main", "--yes")
        shell.ok("suppression", "list")

        rows = shell.ok("audit", "--json").json["data"]
        mine = shell.ok("audit", "--by", "ann", "--json").json["data"]
        by_part = shell.ok("audit", "--by", "an", "--json").json["data"]
        by_commands = shell.ok("audit", "--by", "local:", "--json").json["data"]
        shown = shell.ok("audit").out
        of_ann = shell.ok("audit", "--object", "ann", "--json").json["data"]
        none = shell.ok("audit", "--object", "nobody").out
        refused = shell.run("sends", "list", "--key", "order-17")

    me = f"local:{getpass.getuser()}"
    assert f"by {me}: no reason given" in lifted
    assert [row["what"] for row in of_ann] == ["Revoke a key", "Make a key"]
    del rows[0]
    assert [(row["by_name"] or row["by"], row["what"], row["object"]) for row in rows] == [
        (me, "Delete a source", "main"),
        (me, "Make a source", "main"),
        (me, "Lift a suppression", "bob@example.net"),
        ("ann", "Suppress an address", "bob@example.net"),
        (me, "Make a key", f"ann (operator) {ann['id']}"),
        ("settings file", "Make a source", "filed"),
    ]
    assert [row["what"] for row in mine] == ["Suppress an address"]
    assert [row for row in by_part if row["by_name"]] == mine
    assert {row["by"] for row in by_commands} == {me}
    assert "Delete a source" in shown
    assert "no changes with --object nobody" in none
    assert refused.code == 2
    assert "--idempotency-key" in refused.err
    assert not any(secret in str(rows) for secret in (ann["key"], ADMIN_KEY, "a" * 32))


def test_what_the_file_adds_is_made_and_what_it_changes_is_changed(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    file = shell.folder / "mailonce.toml"
    source = '[sources.filed]\nprovider = "postmark"\nbasic = "hook:{}"\n'
    route = '[routes.crm]\nurl = "https://example.com/hooks"\n'
    file.write_text(source.format("old") + route)
    with shell.serving():
        file.write_text(source.format("new") + route)
        shell.ok("reload")
        file.write_text(source.format("new"))
        shell.ok("reload")
        file.write_text(source.format("new") + route)
        shell.ok("reload")

        rows = shell.ok("audit", "--by", "settings file", "--json").json["data"]

    assert [(row["what"], row["object"]) for row in reversed(rows)] == [
        ("Make a source", "filed"),
        ("Make a route", "crm"),
        ("Change a source", "filed"),
        ("Switch a route off", "crm"),
        ("Change a route", "crm"),
    ]


def test_each_change_has_a_line_of_its_own(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.serving():
        for name in ("hooks", "main"):
            shell.ok("source", "add", name, "--provider", "postmark", "--token", "a" * 32)
        for name, token in (("hooks", "b"), ("main", "b"), ("hooks", "c"), ("main", "c")):
            shell.ok("source", "set", name, "--token", token * 32)

        shown = shell.ok("audit").out

    changes = [line.split()[-1] for line in shown.splitlines() if "Change" in line]
    assert changes == ["main", "hooks", "main", "hooks"]


def test_a_reload_that_changed_a_setting_says_which_and_no_value(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    file = shell.folder / "mailonce.toml"
    file.write_text("[door]\nconnections_max = 900\n")
    with shell.serving():
        file.write_text('[door]\nconnections_max = 901\n[net]\ntrusted_proxies = ["192.0.2.7"]\n')
        shell.ok("reload")
        # Nothing is changed by this one.
        shell.ok("reload")

        rows = shell.ok("audit", "--json").json["data"]

    [row] = [one for one in rows if one["what"] == "Read the settings again"]
    assert row["by"] == f"local:{getpass.getuser()}"
    assert row["object"] == "net.trusted_proxies, door.connections_max"
