"""Simulated mail: what is asked for in vain is told, and the Worker signs as its simulator does."""

import json
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Verified
from mailonce.core.mail.incoming import MailEnvelope, MimeContent
from mailonce.errors import ConfigError
from mailonce.manage.records import source_of
from mailonce.providers import cloudflare
from mailonce.settings import SourceSettings
from mailonce.testing import mail_post, mail_posts, make_simulator

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "examples" / "cloudflare-worker" / "worker.js"
NOW_S = 1_767_225_600
ENVELOPE: dict[str, Any] = {"sender": "bob@example.org", "recipients": ["in@example.net"]}

# Runs the Worker as Cloudflare does, with what stands in for its platform.
PLATFORM = """
import worker from "%s";
const told = { rejected: null, forwarded: null, thrown: null, requests: [] };
const input = JSON.parse(process.argv[2]);
globalThis.fetch = async (url, init) => {
  told.requests.push({ url, method: init.method, redirect: init.redirect, headers: init.headers,
    body: Buffer.from(init.body).toString("base64") });
  if (input.status === 0) throw new Error("connection refused");
  return new Response("", { status: input.status });
};
Date.now = () => input.now_ms;
const message = {
  from: input.from, to: input.to,
  raw: new Blob([Buffer.from(input.raw, "base64")]).stream(),
  setReject(reason) { told.rejected = reason; },
  async forward(address) { told.forwarded = address; },
};
try { await worker.email(message, input.env); } catch (error) { told.thrown = error.message; }
console.log(JSON.stringify(told));
"""


def node() -> str:
    """Find the Node.js that comes with the tests' browser driver."""
    import playwright

    return str(Path(playwright.__file__).parent / "driver" / "node")


def run_worker(tmp_path: Path, **given: object) -> dict[str, Any]:
    raw = given.pop("raw", b"Subject: Hi\r\n\r\n\xff")
    assert isinstance(raw, bytes)
    (tmp_path / "worker.mjs").write_text(WORKER.read_text())
    script = tmp_path / "platform.mjs"
    script.write_text(PLATFORM % "./worker.mjs")
    given = {
        "from": "bob@example.org",
        "to": "In+7@example.net",
        "status": 200,
        "now_ms": NOW_S * 1000 + 999,
        "raw": b64encode(raw).decode(),
        "env": {"MAILONCE_URL": "https://m.example/in/mail", "MAILONCE_SECRET": "geheim"},
        **given,
    }
    done = subprocess.run(
        [node(), str(script), json.dumps(given)], capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


class TestWorker:
    @pytest.mark.parametrize("sender", ["bob@example.org", "", "jörg o'neil@example.org"])
    def test_what_it_posts_is_proven_and_is_the_mail(self, tmp_path: Path, sender: str) -> None:
        told = run_worker(tmp_path, **{"from": sender})

        (request,) = told["requests"]
        headers = {name.lower(): value for name, value in request["headers"].items()}
        arrival = Arrival(
            method=request["method"],
            headers=headers,
            body=b64decode(request["body"]),
            now_ms=NOW_S * 1000,
        )
        source = source_of("mail", SourceSettings(provider="cloudflare", secret="geheim"))
        assert cloudflare.verify(arrival, source, {}) == Verified()
        (mail,) = cloudflare.parse(arrival, source).mails
        assert mail.content == MimeContent(b"Subject: Hi\r\n\r\n\xff")
        assert mail.envelope == MailEnvelope(
            mail_from=sender, recipients=("In+7@example.net",), origin="provider"
        )
        assert (request["redirect"], told["thrown"], told["rejected"]) == ("manual", None, None)

    @pytest.mark.parametrize("status", [301, 401, 404, 429, 500, 503, 0])
    def test_what_may_pass_is_thrown_and_never_rejected(self, tmp_path: Path, status: int) -> None:
        told = run_worker(tmp_path, status=status)

        assert str(told["thrown"]).startswith("mailonce ")
        assert (told["rejected"], told["forwarded"]) == (None, None)

    def test_a_mail_that_is_too_large_is_rejected_for_good(self, tmp_path: Path) -> None:
        told = run_worker(tmp_path, status=413)

        assert str(told["rejected"]).startswith("552")
        assert told["thrown"] is None

    def test_a_fallback_gets_what_mailonce_does_not_take(self, tmp_path: Path) -> None:
        env = {"MAILONCE_URL": "https://m.example/", "MAILONCE_SECRET": "s", "FALLBACK": "a@b.c"}

        told = run_worker(tmp_path, status=503, env=env)

        assert (told["forwarded"], told["thrown"]) == ("a@b.c", None)


def test_the_simulator_writes_as_the_worker_does(tmp_path: Path) -> None:
    simulator = make_simulator("cloudflare", "1")
    raw = b"Subject: Hi\r\n\r\n"
    sender, recipient = "jörg (o'neil)!~*@example.org", "in+7@example.net"
    post = mail_post(simulator, raw, sender=sender, recipients=[recipient], now_s=NOW_S)

    told = run_worker(
        tmp_path,
        **{"from": sender, "to": recipient},
        raw=raw,
        env={"MAILONCE_URL": "https://m.example/", "MAILONCE_SECRET": simulator.secret},
    )

    (request,) = told["requests"]
    assert request["headers"] == post.headers


def test_a_simulator_without_mail_says_so() -> None:
    with pytest.raises(ConfigError, match="loops hands over no mail; choose one of brevo"):
        mail_posts(make_simulator("loops"), b"", **ENVELOPE, now_s=NOW_S)


def test_a_mode_that_a_provider_does_not_have_is_told_with_those_that_it_has() -> None:
    simulator = make_simulator("sendgrid")

    with pytest.raises(ConfigError, match="no mail as 'mime'; choose one of raw, parsed"):
        mail_posts(simulator, b"", **ENVELOPE, now_s=NOW_S, mode="mime")
