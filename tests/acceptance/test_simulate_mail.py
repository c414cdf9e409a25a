"""The inbound side of every provider, and a mail server that loses replies: each mail is one."""

import time
import tomllib
from collections.abc import Iterator

import pytest

from mailonce import providers
from mailonce.edge.cli.simulate import source_toml
from mailonce.testing import PlanOptions, SimulationPace, make_simulator, simulate
from mailonce.testing.inbound import hook_of, mail_settings, names
from mailonce.testing.mail_storm import HookSide, make_mails, plan_mails
from tests.acceptance.harness import Server, running
from tests.acceptance.mail_senders import make_inbox, messages, readable_seq
from tests.commands import Shell
from tests.servers import free_port, wait_for

SEED = "a seed for tests"
MAILS = 6
# SNS is proven by a certificate that is fetched; other mail is fetched itself. What these hand over
# is tested with a stand-in for their hosts, in tests/inbox/test_inbound_hooks.py.
FETCHED = {("mailgun", "stored")}
NAMES = [name for name in names() if name not in {"ses", "resend"}]
OPTIONS = PlanOptions(duplicates=1, shuffle=True, corrupt=0.5, seed=SEED)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("simulate")
    server = Server(folder / "server", f"sqlite:///{folder / 'data.db'}")
    simulators = [make_simulator(name, SEED, to=f"{server.url}/in/{name}") for name in NAMES]
    server.settings = "\n".join(source_toml(one.name, mail_settings(one)) for one in simulators)
    with running(server):
        yield server


async def test_the_mail_of_every_hook_is_one_message_however_often_it_comes(
    server: Server, subtests: pytest.Subtests
) -> None:
    for name in NAMES:
        simulator = make_simulator(name, SEED, to=f"{server.url}/in/{name}")
        provider = providers.find(simulator.provider)
        assert provider is not None
        for mode in hook_of(simulator).modes:
            if (name, mode) in FETCHED:
                continue
            with subtests.test(f"{name} {mode}"):
                inbox = make_inbox(server)
                mails = make_mails(
                    [inbox["address"]], f"{name}-{mode}", MAILS, now_s=int(time.time())
                )
                plan = plan_mails(mails, OPTIONS)

                report = await simulate(
                    HookSide(simulator, mails, mode=mode),
                    plan,
                    now_s=time.time,
                    pace=SimulationPace(rate=2000, connections=4),
                )

                last = server.get(f"/v1/inboxes/{inbox['id']}")["seq"]
                wait_for(
                    lambda inbox=inbox, last=last: readable_seq(server, inbox) == last,
                    what="all mail to be read",
                )
                shown = messages(server, inbox["id"])
                whole = {f"Simulated mail {number}" for number in range(MAILS)}
                assert report.acknowledged == report.posts > MAILS
                assert report.corrupted > 0
                assert whole <= {message["subject"] for message in shown}
                if provider.signs_body:
                    assert report.corrupted_acknowledged == 0
                    assert len(shown) == MAILS
                else:
                    assert len(shown) <= MAILS + report.corrupted_acknowledged


def test_the_command_hands_over_mail_by_hook_and_over_smtp(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("command")
    shell = Shell(folder)
    address = "ann@inbox.localhost"
    url = "http://127.0.0.1:1/in/mail"
    printed = shell.ok("simulate", "brevo", "--mail", address, "--settings", "--to", url)
    smtp_port = free_port()
    (folder / "mailonce.toml").write_text(f"{printed.out}\n[smtp]\nport = {smtp_port}\n")
    own = folder / "own.eml"
    own.write_bytes(b"From: a@example.org\r\nSubject: of my own\r\n\r\nHi\r\n")
    with shell.serving(smtp_port=smtp_port) as server:
        shell.ok("inbox", "create", "ann")
        to = f"{server}/in/mail"
        hook = shell.ok(
            "simulate", "brevo", "--mail", address, "--to", to, "--events", "5", "--json"
        )
        smtp = ("simulate", "smtp", "--mail", address, "--to", f"127.0.0.1:{smtp_port}")
        lossy = shell.ok(*smtp, "--events", "5", "--duplicates", "2", "--shuffle", "--json")
        mine = shell.ok(*smtp, "--file", str(own), "--duplicates", "1", "--json")
        unknown = shell.run("simulate", "smtp", "--mail", "none@inbox.localhost", *smtp[4:])
        shown = shell.ok("inbox", "show", address, "--json").json
        hostile = shell.ok("simulate", "mail", *smtp[2:], "--mode", "same_mail_twice", "--json")

    assert tomllib.loads(printed.out)["sources"]["mail"]["options"]["recipients_from_headers"]
    assert hook.json["mails"] == hook.json["mails_acknowledged"] == 5
    assert (lossy.json["attempts"], lossy.json["lost"], lossy.json["acknowledged"]) == (15, 10, 5)
    assert (mine.json["attempts"], mine.json["acknowledged"]) == (2, 1)
    assert unknown.code == 1
    assert "550" in unknown.out or "5.1.1" in unknown.out
    assert shown["mails"] == 11
    [row] = hostile.json["mails"]
    assert (row["name"], row["safe"], row["replies"]) == ("same_mail_twice", "use", "250 250")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smtp"], "`--mail` is missing"),
        (["mail", "--mode", "nothing"], "there is no mail 'nothing'"),
        (["smtp", "--mail", "a@b.test", "--to", "http://x"], "'http://x' is no mail server"),
        (["smtp", "--mail", "a@b.test", "--to", "x:none"], "'x:none' is no mail server"),
        (["loops", "--mail", "a@b.test", "--to", "http://127.0.0.1:1/in/x"], "hands over no mail"),
        (["postmark", "--mode", "raw", "--to", "http://127.0.0.1:1/in/x"], "`--mail` is missing"),
        (["postmark", "--mail", "a@b.test", "--file", "no.eml", "--to", "http://127.0.0.1:1/in/x"],
         "no.eml cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_work_says_why_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str], said: str
) -> None:
    done = Shell(tmp_path_factory.mktemp("wrong")).run("simulate", *arguments)

    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
