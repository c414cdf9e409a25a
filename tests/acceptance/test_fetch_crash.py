"""A worker that is killed while it fetches a mail leaves it to the next one."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from mailonce.settings import NetSettings
from mailonce.testing import Simulator, mail_settings
from tests.acceptance.harness import ADMIN_KEY, HTTP, Server, running
from tests.acceptance.mail_senders import make_inbox
from tests.commands import Shell
from tests.inbox.fetching import RESEND, ProviderApis, announcements, serving_apis
from tests.net.conftest import Authority, authority
from tests.servers import wait_for

__all__ = ["authority"]


def settings_of(simulator: Simulator, net: NetSettings) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in mail_settings(simulator).items()]
    hosts = [f"{json.dumps(name)} = {json.dumps(place)}" for name, place in net.hosts.items()]
    trust = f"ca_file = {json.dumps(str(net.ca_file))}"
    return "\n".join(["[sources.resend]", *lines, "[net]", trust, "[net.hosts]", *hosts])


async def test_a_mail_whose_worker_is_killed_in_its_fetch_is_one_message(
    database_url: str, tmp_path: Path, authority: Authority
) -> None:
    async with serving_apis(authority) as (apis, net):
        simulator = apis.simulators["resend"]
        server = Server(tmp_path / "server", database_url, settings=settings_of(simulator, net))
        apis.faults[RESEND] = 0
        shown = await asyncio.to_thread(_kill_in_fetch, tmp_path, server, apis, simulator)

    assert [one["subject"] for one in shown["messages"]] == ["n0", "n1", "n2"]
    assert (shown["before"]["mails"], shown["after"]["mails"]) == (3, 0)
    assert "3 mails arrived and were not read yet, the oldest at " in shown["said"]


def _kill_in_fetch(
    folder: Path, server: Server, apis: ProviderApis, simulator: Simulator
) -> dict[str, Any]:
    with running(server):
        inbox = make_inbox(server)
        for number in range(3):
            for post in announcements(
                simulator, f"n{number}", inbox["address"], now_s=int(time.time())
            ):
                answer = HTTP.post(
                    f"{server.url}/in/resend", content=post.body, headers=dict(post.headers)
                )
                assert answer.status_code == 200, answer.text
        wait_for(lambda: apis.asked.get(RESEND) == 3, what="the fetches to be under way")
        before = server.get(f"/v1/inboxes/{inbox['id']}")["pending"]
        server.kill()
        server.start()
        wait_for(lambda: apis.asked[RESEND] == 6, what="the fetches to be made again")
        path = f"/v1/inboxes/{inbox['id']}"
        said = Shell(folder, {"MAILONCE_URL": server.url, "MAILONCE_KEY": ADMIN_KEY}).ok(
            "inbox", "show", inbox["address"]
        )
        apis.faults.clear()
        wait_for(lambda: not server.get(path)["pending"]["mails"], what="the mail to be read")
        messages = server.get(f"{path}/messages")["data"]
        return {
            "before": before,
            "said": " ".join(said.out.split()),
            "after": server.get(path)["pending"],
            "messages": messages,
        }
