"""A master key that is rolled out door by door costs no door more than what it cannot open."""

import json
from pathlib import Path

from tests.acceptance.harness import HTTP, SECRET, Server, event, running, signed
from tests.servers import wait_for


def _door(folder: Path, url: str, master_key: str) -> Server:
    return Server(folder, url, environment={"MAILONCE_MASTER_KEY": master_key})


def test_an_older_door_goes_on_with_the_sources_that_it_can_open(
    postgres_url: str, tmp_path: Path
) -> None:
    old = _door(tmp_path / "old", postgres_url, "old key")
    new = _door(tmp_path / "new", postgres_url, '["new key", "old key"]')
    with running(old), running(new):
        made = new.api(
            "/v1/sources",
            method="POST",
            json={"name": "late", "provider": "sesmetric", "secret": SECRET},
        )
        assert made.status_code == 201
        body = json.dumps(event("late")).encode()

        def is_unreadable() -> bool:
            answer = old.post(body, source="late")
            return answer.status_code == 503 and "master_key" in answer.json()["detail"]

        wait_for(is_unreadable, what="the older door to meet the new source")

        assert old.post(event("own")).status_code == 200
        assert new.post(body, source="late").status_code == 200
        # A forgery is not let in either, and the order of proofs does not matter.
        forged = old.post(body, source="late", headers=signed(body, secret="other"))
        assert forged.status_code == 503
        shown = {one["name"]: one["readable"] for one in old.get("/v1/sources")["data"]}
        assert shown == {"main": True, "hooks": True, "late": False}
        ready = HTTP.get(f"{old.url}/readyz")
        assert (ready.status_code, ready.json()["unreadable"]) == (200, 1)
        assert "mailonce_unreadable_secrets 1.0" in HTTP.get(f"{old.url}/metrics").text
        assert "secrets_unreadable" in old.log
        assert "master_key_short" in old.log


def test_a_door_that_can_open_nothing_does_not_start_and_changes_nothing(
    database_url: str, tmp_path: Path
) -> None:
    with running(_door(tmp_path / "one", database_url, "one")) as server:
        assert server.post(event(1)).status_code == 200
    wrong = _door(tmp_path / "wrong", database_url, "another")
    wrong.spawn()
    assert wrong.process is not None
    wait_for(lambda: wrong.process.poll() is not None, what="its end")

    assert "master_key" in wrong.log
    with running(_door(tmp_path / "again", database_url, "one")) as server:
        assert server.post(event(1)).json()["status"] == "duplicate"


def test_a_new_master_key_replaces_the_old_one_as_the_manual_says(
    database_url: str, tmp_path: Path
) -> None:
    with running(_door(tmp_path, database_url, "old key")) as server:
        assert server.post(event(1)).status_code == 200
    with running(_door(tmp_path, database_url, '["new key", "old key"]')) as server:
        done = server.api("/v1/reencryptions", method="POST").json()
        assert done["encrypted"] >= 1
        assert done["left"] == 0
        audit = [one["operation"] for one in server.get("/v1/audit")["data"]]
        assert "POST /v1/reencryptions" in audit
    with running(_door(tmp_path, database_url, "new key")) as server:
        assert server.post(event(1)).json()["status"] == "duplicate"
        assert server.post(event(2)).json()["status"] == "accepted"


def test_after_the_loss_of_the_key_secrets_are_entered_again_as_the_manual_says(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    # One of each, beside the sources of the file.
    records: dict[str, dict[str, str]] = {
        "sources": {"provider": "sesmetric", "secret": SECRET},
        "routes": {"url": "https://example.com/hooks", "secret": "whsec_" + "c2Vj" * 11},
        "senders": {"provider": "postmark", "secret": "a-key-of-theirs"},
    }
    with running(_door(tmp_path / "old", url, "lost key")) as server:
        for noun, fields in records.items():
            made = server.api(f"/v1/{noun}", method="POST", json={"name": "late", **fields})
            assert made.status_code == 201, made.text
        assert server.post(event(1)).status_code == 200
        assert server.post(event(1), source="late").status_code == 200
    refused = _door(tmp_path / "new", url, "new key")
    refused.spawn()
    assert refused.process is not None
    wait_for(lambda: refused.process.poll() is not None, what="its end")
    lost = _door(tmp_path / "new", url, "new key")
    lost.options = ["--lost-master-key"]

    with running(lost) as server:
        from_file = server.post(event(1))
        unreadable = server.post(event(1), source="late")
        entered = [
            server.api(f"/v1/{noun}/late", method="PUT", json=fields)
            for noun, fields in records.items()
        ]
        again = server.post(event(1), source="late")
    with running(_door(tmp_path / "new", url, "new key")) as server:
        new = server.post(event(2))
        left = HTTP.get(f"{server.url}/readyz").json()["unreadable"]

    assert "mailonce serve --lost-master-key" in refused.log
    assert from_file.json()["status"] == "duplicate"
    assert unreadable.status_code == 503
    assert [one.status_code for one in entered] == [200, 200, 200], entered
    assert left == 0
    assert again.json()["status"] == "duplicate"
    assert new.json()["status"] == "accepted"
