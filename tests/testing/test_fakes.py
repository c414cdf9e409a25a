"""The fakes of providers' APIs, called as an application of anybody calls the provider."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailonce.errors import ConfigError
from mailonce.testing.fakes import (
    Fake,
    FakeAct,
    FakeMail,
    FakeSmtpServer,
    FakeStep,
    SmtpAct,
    SmtpStep,
    make_fake,
    names,
)
from mailonce.testing.fakes.http_server import FakeRequest
from mailonce.testing.fakes.postmark import FakePostmark
from tests.testing.fake_calls import post, text_of
from tests.testing.provider_calls import (
    ANN,
    BOB,
    DAN,
    ORDINARY,
    REFUSED,
    credentials,
)

# Those that have an id for each recipient; the others have one for the call.
MANY_IDS = {"emailit", "mailjet", "mailtrap", "mandrill", "postal", "scaleway"}
# To load the authorities takes a while.
CLIENT = httpx.Client(timeout=60, trust_env=False)
DOCUMENT = Path(__file__).parents[2] / "docs/fakes.md"

# Calls of the providers that no fake knows.
UNKNOWN: dict[str, str] = {
    "brevo": "/v3/smtp/templates",
    "emailit": "/v2/emails/1/cancel",
    "mailersend": "/v1/bulk-email",
    "mailgun": "/v4/domains",
    "mailjet": "/v3/send",
    "mailtrap": "/api/batch",
    "mandrill": "/api/1.0/messages/send-template.json",
    "postal": "/api/v1/messages/message",
    "postmark": "/email/batch",
    "resend": "/emails/batch",
    "scaleway": "/transactional-email/v1alpha1/regions/fr-par/domains",
    "sendgrid": "/v3/mail/batch",
    "ses": "/v2/email/outbound-bulk-emails",
    "smtp2go": "/v3/email/mime",
    "sparkpost": "/api/v1/templates",
}


@pytest.mark.parametrize("name", names())
async def test_an_ordinary_call_is_a_message_for_each_recipient(
    name: str, subtests: pytest.Subtests
) -> None:
    for number, call in enumerate(ORDINARY[name]):
        with subtests.test(f"{number} {call.path}"):
            async with make_fake(name) as fake:
                answer = await post(fake, call)

                assert answer.is_success, answer.text
                assert tuple(one.mail.recipient for one in fake.messages) == call.people
                assert {one.mail.subject for one in fake.messages} == {call.subject}
                ids = {one.id for one in fake.messages}
                assert len(ids) == (len(call.people) if name in MANY_IDS else 1)
                assert all(id_ in text_of(answer) for id_ in ids)
                assert [one.recipient for one in fake.sends[0].mails] == list(call.people)
                posts = fake.webhooks(now_s=1_800_000_000)
                assert len({one.body for one in posts}) == len(call.people)


@pytest.mark.parametrize("name", names())
async def test_what_the_provider_refuses_is_refused_in_its_own_form(
    name: str, subtests: pytest.Subtests
) -> None:
    plain = ORDINARY[name][0]
    async with make_fake(name) as fake:
        fake.script(FakeAct.REFUSE)
        shape = (await post(fake, plain)).json().keys()
        status, changes = REFUSED[name]
        for change in changes:
            with subtests.test(str(change)):
                answer = await post(fake, plain, **change)

                assert answer.status_code == status, answer.text
                assert shape <= answer.json().keys() or "Messages" in answer.json()
                assert fake.messages == []

        assert (await post(fake, plain)).is_success


@pytest.mark.parametrize("name", names())
async def test_what_a_fake_does_not_know_is_answered_with_what_it_knows(
    name: str, subtests: pytest.Subtests
) -> None:
    path = ORDINARY[name][0].path
    async with make_fake(name) as fake:
        for method, target in [("POST", UNKNOWN[name]), ("PUT", path), ("DELETE", "/")]:
            with subtests.test(f"{method} {target}"):
                async with httpx.AsyncClient(headers=credentials(fake)) as client:
                    key = {"key": fake.secret}
                    answer = await client.request(method, f"{fake.url}{target}", json=key)

                assert answer.status_code == 404
                answer.json()
                assert f"this fake of {name} does not know {method} {target}" in answer.text
                assert all(call in answer.text for call in fake.known_calls)


@pytest.mark.parametrize("name", names())
async def test_other_bodies_are_answered(name: str, subtests: pytest.Subtests) -> None:
    path = ORDINARY[name][0].path
    bodies: list[tuple[bytes, str]] = [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b"null", "application/json; charset=utf-8"),
        (b"a=b", "application/x-www-form-urlencoded"),
        (b"\xff\x00", "multipart/form-data; boundary=x"),
        (b"--x\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x"),
        (b"--x", "multipart/form-data"),
        (b"<a/>", "text/xml"),
        (b"", ""),
    ]
    async with make_fake(name) as fake, httpx.AsyncClient(headers=credentials(fake)) as client:
        for body, type_ in bodies:
            with subtests.test(f"{body!r} {type_}"):
                kind = {"Content-Type": type_} if type_ else {}
                answer = await client.post(f"{fake.url}{path}", content=body, headers=kind)

                # Mandrill and Postal have refusals in a 500 and in a 200.
                assert answer.status_code in {200, 400, 415, 422} or name == "mandrill"
                assert "error" in answer.text.lower() or "message" in answer.text.lower()
                assert "fault of the fake" not in answer.text
                assert fake.messages == []


@pytest.mark.parametrize("name", names())
async def test_a_script_for_one_goes_by_any_recipient_of_the_call(name: str) -> None:
    call = next(one for one in ORDINARY[name] if len(one.people) > 1)
    async with make_fake(name) as fake:
        fake.script(FakeAct.BUSY, to=call.people[-1])

        assert (await post(fake, ORDINARY[name][0])).is_success
        assert (await post(fake, call)).status_code == fake.busy_status

        assert len(fake.messages) == 1
        assert (await post(fake, call)).is_success


WRONG_STEPS: dict[str, tuple[Any, str]] = {
    "a name": ("ACCEPT", r"a step is 'ACCEPT'; write FakeAct\.ACCEPT"),
    "a value": ("accept_and_hang", r"write FakeAct\.ACCEPT_AND_HANG"),
    "another word": ("bounce", r"write one of FakeAct, such as FakeAct\.ACCEPT"),
    "a number": (3, "a step is 3; write one of FakeAct"),
    "nothing": (None, "a step is None; write one of FakeAct"),
    "a list": ([FakeAct.ACCEPT], r"not in a list: script\(FakeAct\.ACCEPT, FakeAct\.…\)"),
    "of the other fake": (SmtpAct.ACCEPT, r"a step is <SmtpAct\.ACCEPT.*; write FakeAct\.ACCEPT"),
    "a step of the other": (SmtpStep(), "write one of FakeAct"),
}


def test_a_step_of_a_wrong_kind_is_refused_at_once(subtests: pytest.Subtests) -> None:
    fake = make_fake("postmark")
    for name, (step, words) in WRONG_STEPS.items():
        with subtests.test(name):
            with pytest.raises(ConfigError, match=words):
                fake.script(FakeAct.BUSY, step)

            assert not fake.steps, "all of a script is taken, or nothing"
    server = FakeSmtpServer()
    other: Any = FakeAct.ACCEPT
    with pytest.raises(ConfigError, match=r"write SmtpAct\.ACCEPT"):
        server.script(other)
    text: Any = "2"
    for delay_s in (-1, float("nan"), text):
        with subtests.test(repr(delay_s)), pytest.raises(ConfigError, match="`delay_s` is"):
            FakeStep(FakeAct.ACCEPT, delay_s=delay_s)
    person: Any = ["ann@example.net"]
    for to in (person, "ann"):
        with subtests.test(str(to)), pytest.raises(ConfigError, match=r"`to` is .* one address"):
            fake.script(FakeAct.BUSY, to=to)
        with subtests.test(f"{to} by SMTP"), pytest.raises(ConfigError, match="`to` is"):
            server.script(SmtpAct.ACCEPT, to=to)


async def test_a_fake_has_no_address_before_it_listens() -> None:
    fake = make_fake("postmark")

    with pytest.raises(ConfigError, match=r"async with make_fake\(\.\.\.\) as fake"):
        _ = fake.url
    with pytest.raises(ConfigError, match="does not listen"):
        fake.sender_settings()

    async with fake:
        assert not fake.url.endswith(":0")
    assert make_fake("postmark", port=8025).url == "http://127.0.0.1:8025"


async def test_each_personalization_of_sendgrid_has_its_own_subject_and_arguments() -> None:
    people = [
        {"to": [{"email": ANN}], "custom_args": {"order": "1"}},
        {"to": [{"email": BOB}], "subject": "Yours", "custom_args": {"order": "2"}},
    ]
    async with make_fake("sendgrid") as fake:
        await post(fake, ORDINARY["sendgrid"][0], personalizations=people, custom_args={"a": "b"})

        assert [one.mail.subject for one in fake.messages] == ["Hello", "Yours"]
        args = [one.mail.marks["args"] for one in fake.messages]
        assert args == [{"a": "b", "order": "1"}, {"a": "b", "order": "2"}]


async def test_a_mail_says_in_which_field_its_recipient_stood() -> None:
    async with make_fake("mailjet") as fake:
        answer = await post(fake, ORDINARY["mailjet"][1])

        assert [one.mail.role for one in fake.messages] == ["to", "to", "cc", "bcc"]
        (message,) = answer.json()["Messages"]
        assert [len(message[role]) for role in ("To", "Cc", "Bcc")] == [2, 1, 1]
        assert message["Bcc"][0]["Email"] == DAN


class BrokenFake(FakePostmark):
    """Has a fault of its own."""

    def read(self, request: FakeRequest) -> list[FakeMail] | None:
        raise KeyError(request.method)


async def test_a_fault_of_a_fake_is_told_as_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async with BrokenFake() as fake:
        with caplog.at_level(logging.ERROR):
            answer = await post(fake, ORDINARY["postmark"][0])

        assert answer.status_code == 500
        assert "fault of the fake itself" in answer.text
        assert "KeyError" in answer.text
        assert "KeyError" in caplog.text
        assert len(fake.calls) == 1
        assert fake.sends == []


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Fake]]:
    """Run all fakes on a loop of their own: hypothesis has none."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> dict[str, Fake]:
        return {name: await make_fake(name).__aenter__() for name in names()}

    async def stop(fakes: dict[str, Fake]) -> None:
        for fake in fakes.values():
            await fake.close()

    fakes = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    yield fakes
    asyncio.run_coroutine_threadsafe(stop(fakes), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


WORDS = sorted({
    word for calls in ORDINARY.values() for call in calls
    for word in json.dumps(call.json or call.form).split('"')[1::2]
})  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS) | st.text(max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda one: (
        st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(WORDS), one, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """Put anything in the place of some part of a value."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 3)) == 0:
        return draw(VALUES)
    key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    changed = value.copy()
    changed[key] = draw(damaged(value[key]))
    return changed


@pytest.mark.parametrize("name", names())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_request_gets_a_closed_connection_or_an_exception(
    name: str, running: dict[str, Fake], data: st.DataObject
) -> None:
    fake, draw = running[name], data.draw
    known = [call.partition(" ")[::2] for call in fake.known_calls]
    plain = [("POST", call.path) for call in ORDINARY[name]]
    method, path = draw(st.sampled_from([*known, *plain, *plain, ("", "")]))
    method = method or draw(st.sampled_from(["GET", "HEAD", "POST", "PATCH", "OPTIONS"]))
    path = path or "/" + quote(draw(st.text(max_size=20)))
    call = draw(st.sampled_from(ORDINARY[name]))
    kind = draw(st.sampled_from(["json", "form", "files", "bytes"]))
    body: dict[str, Any] = {}
    if kind == "json":
        body["json"] = draw(damaged(call.json or {}) | VALUES)
    elif kind == "bytes":
        body["content"] = draw(st.binary(max_size=50))
    else:
        body["data"] = draw(
            st.dictionaries(st.sampled_from(WORDS), st.text(max_size=20), max_size=5)
        )
    if kind == "files":
        body["files"] = {draw(st.sampled_from(WORDS)): draw(st.binary(max_size=50))}
    query = draw(st.dictionaries(st.sampled_from(WORDS), st.text(max_size=9), max_size=2))
    if name == "mandrill" and isinstance(body.get("json"), dict):
        body["json"]["key"] = fake.secret

    answer = CLIENT.request(
        method, fake.url + path, params=query or None, headers=credentials(fake), **body
    )

    assert "fault of the fake" not in answer.text
    if answer.content:
        answer.json()
    fake.webhooks(now_s=1_800_000_000, messages=fake.messages[-1:])


def test_the_document_names_the_calls_that_each_fake_knows() -> None:
    rows = DOCUMENT.read_text().splitlines()

    for name in names():
        calls = " ".join(row for row in rows if row.startswith(f"| `{name}` |"))
        assert calls, f"docs/fakes.md has no row of {name}"
        for call in make_fake(name).known_calls:
            assert f"`{call}`" in calls
