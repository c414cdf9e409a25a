"""A running server reads its settings again, whole or not at all."""

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from mailonce.reload import LIVE, LIVE_TABLES, is_live
from mailonce.settings import Settings
from tests.acceptance.endpoint import Endpoint, serving
from tests.acceptance.harness import SECRET, SETTINGS, Server, event, running, signed
from tests.commands import Shell
from tests.servers import wait_for

NEW = f"""
[sources.new]
provider = "sesmetric"
secret = "{SECRET}"
"""


def post(server: Server, source: str, name: str = "one") -> httpx.Response:
    body = json.dumps(event(name)).encode()
    return server.post(body, source=source, headers=signed(body))


def write(server: Server, text: str) -> None:
    (server.folder / "mailonce.toml").write_text(text)


def expect_link(server: Server) -> httpx.Response:
    """Open an expectation of a link with an agent's key."""
    made = server.api("/v1/keys", method="POST", json={"scope": "agent", "name": "agent"}).json()
    return httpx.post(
        f"{server.url}/v1/expectations",
        json={"kind": "link", "link_hosts": ["app.example.com"]},
        headers={"Authorization": f"Bearer {made['key']}"},
    )


def test_hangup_and_reload_change_what_can_change_and_name_what_cannot(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'data.db'}"
    with running(Server(tmp_path / "server", database)) as server:
        assert post(server, "new").status_code == 404
        without_main = SETTINGS.replace("[sources.main]", "[sources.first]")

        write(server, SETTINGS + NEW)
        os.kill(server.pid, signal.SIGHUP)
        wait_for(lambda: "settings_reloaded" in server.log, what="the settings to be read")
        added = post(server, "new")
        server.api("/v1/sources/new", method="DELETE")
        again = server.api("/v1/reloads", method="POST").json()
        write(server, f"window_days = 40\n{without_main}{NEW}[limits]\nbody_bytes_max = 1024\n")
        report = server.api("/v1/reloads", method="POST").json()
        off = post(server, "main")
        large = server.post(b"x" * 2_000, source="new")
        refused = expect_link(server)
        allowed = '[expectations]\nlink_hosts = ["app.example.com"]\n'
        write(server, f"{without_main}{NEW}{allowed}")
        server.api("/v1/reloads", method="POST")
        opened = expect_link(server)

    assert added.status_code == 200
    assert again["changed"] == ["source new"], "it stood in the file, and was removed by hand"
    assert report == {
        "changed": ["sources", "limits.body_bytes_max"],
        "restart": ["window_days"],
        "off": ["source main"],
        "variables": ["MAILONCE_ADMIN_KEY", "MAILONCE_DATABASE"],
        "over_file": [],
    }
    assert off.status_code == 503
    assert large.status_code == 413
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:mailonce:link_host")
    assert "'app.example.com', which is not within" in refused.json()["detail"]
    assert opened.status_code == 201


def test_a_wrong_file_is_refused_whole_and_the_server_goes_on(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'data.db'}"
    with serving() as endpoint, running(Server(tmp_path / "server", database)) as server:
        _refuse_and_go_on(server, endpoint)


def _refuse_and_go_on(server: Server, endpoint: Endpoint) -> None:
    crm = f'{SETTINGS}{NEW}[routes.crm]\nurl = "{endpoint.url}"\n'
    wrong = {
        "is not TOML": SETTINGS + "[sources.new\n",
        "there is no setting `sources.new.sekret`": SETTINGS + NEW + 'sekret = "x"\n',
        "`allow_ips`); a variable counts only after a restart": (
            SETTINGS + '[sources.new]\nprovider = "sesmetric"\n'
        ),
        "needs `secret`; add it; a variable counts only after a restart": (
            SETTINGS + '[senders.out]\nprovider = "postmark"\n'
        ),
        "use letters, digits": SETTINGS + NEW.replace("new", '"new source"'),
        "net.allow_hosts": crm,
        "write it as 'ip:port'": SETTINGS + NEW + '[net.hosts]\n"x.example" = "nowhere"\n',
    }
    before = server.get("/v1/sources")

    for sentence, text in wrong.items():
        write(server, text)
        answer = server.api("/v1/reloads", method="POST")
        assert answer.status_code >= 400
        assert sentence in answer.json()["detail"]
    (server.folder / "mailonce.toml").unlink()
    gone = server.api("/v1/reloads", method="POST")
    after = server.get("/v1/sources")
    taken = post(server, "main")
    write(server, f'{crm}[net]\nallow_hosts = ["127.0.0.1"]\n')
    report = server.api("/v1/reloads", method="POST").json()
    post(server, "new", "for the new route")

    assert "put it back" in gone.json()["detail"]
    assert after == before
    assert taken.status_code == 200
    assert server.log.count("reload_refused") == len(wrong) + 1
    assert report["changed"] == ["sources", "routes", "net.allow_hosts"]
    wait_for(lambda: endpoint.requests, what="a host that is allowed since the reload")


# An application that takes its time to be imported, until a test lets it go on.
SLOW_APP = """
import pathlib, time
from mailonce.handlers import Handlers
pathlib.Path("begun").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.01)
handlers = Handlers()
"""


def test_a_hangup_during_the_start_is_kept_until_it_can_be_followed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "slow_app.py").write_text(SLOW_APP)
    server = Server(
        folder, f"sqlite:///{tmp_path / 'data.db'}", environment={"MAILONCE_APP": "slow_app"}
    )
    server.spawn()
    try:
        wait_for((folder / "begun").exists, what="the start")
        write(server, SETTINGS + NEW)
        os.kill(server.pid, signal.SIGHUP)
        (folder / "go").touch()
        server.start()
        wait_for(lambda: "settings_reloaded" in server.log, what="the settings to be read again")
        taken = post(server, "new")
    finally:
        code = server.stop()

    assert code == 0
    assert taken.status_code == 200
    assert server.log.count("configuration_loaded") == 2, "once at the start, once for the reload"


def test_without_a_server_reload_changes_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", SECRET)
    (tmp_path / "mailonce.toml").write_text(NEW)

    done = shell.run("reload")

    assert done.code == 1
    assert "no server with an HTTP door runs in 'mailonce-data', so nothing was changed" in done.err
    assert "a worker or an SMTP door reads its settings again at SIGHUP" in done.err
    with closing(sqlite3.connect(shell.data_dir / "mailonce.db")) as database:
        assert database.execute("SELECT name FROM sources").fetchall() == [("main",)]


def test_only_settings_that_parts_are_not_built_with_are_live() -> None:
    live = {name for name in ("sources", "port", "limits.flushers", "limits.body_bytes_max")
            if is_live(name)}  # fmt: skip

    assert live == {"sources", "limits.body_bytes_max"}
    assert {name.partition(".")[0] for name in LIVE} | LIVE_TABLES <= set(Settings.model_fields)
