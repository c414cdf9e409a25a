"""What a fake answers to keys, credentials and modes, where the provider has its own way."""

import asyncio
from typing import Any
from urllib.parse import unquote_plus

import httpx
import pytest

from mailonce.testing.fakes import FakeAct, FakeStep, make_fake
from tests.testing.fake_calls import keyed_call, post, text_of
from tests.testing.provider_calls import ANN, ORDINARY, SHOP, credentials

# Those that know an idempotency key.
KEYED = ("brevo", "emailit", "resend")


async def test_a_repeat_with_a_key_is_told_of_the_first_call() -> None:
    call = ORDINARY["emailit"][2]
    async with make_fake("emailit") as fake:
        async with httpx.AsyncClient(headers={**credentials(fake), "Idempotency-Key": "k"}) as web:
            first, second = [await web.post(fake.url + call.path, json=call.json) for _ in "12"]

        assert (first.status_code, second.status_code) == (201, 200)
        assert first.json() == second.json()
        assert len(fake.messages) == 4


@pytest.mark.parametrize("name", KEYED)
async def test_a_scripted_step_happens_under_a_known_key_too(
    name: str, subtests: pytest.Subtests
) -> None:
    statuses = {FakeAct.BUSY: 429, FakeAct.FAIL: 500, FakeAct.ACCEPT_AND_FAIL: 500}
    async with make_fake(name) as fake, httpx.AsyncClient() as web:
        call = keyed_call(fake)
        await web.post(**call)
        usual = await web.post(**call)
        for act, status in statuses.items():
            with subtests.test(str(act)):
                fake.script(act)

                answer = await web.post(**call)

                assert answer.status_code == status, answer.text
                step = fake.calls[-1].step
                assert step is not None
                assert step.act is act
        for act in (FakeAct.BREAK, FakeAct.ACCEPT_AND_BREAK, FakeAct.ACCEPT_AND_CUT):
            with subtests.test(str(act)):
                fake.script(act)

                with pytest.raises(httpx.TransportError):
                    await web.post(**call)
        for act in (FakeAct.HANG, FakeAct.ACCEPT_AND_HANG):
            with subtests.test(str(act)):
                fake.script(act)

                with pytest.raises(httpx.ReadTimeout):
                    await web.post(**call, timeout=0.2)

        # The key is still known, and has sent one mail.
        answer = await web.post(**call)
        assert (answer.status_code, answer.text) == (usual.status_code, usual.text)
        assert len(fake.messages) == 1


async def test_a_key_that_runs_out_during_its_call_is_no_fault_of_the_fake() -> None:
    call = ORDINARY["resend"][0]
    async with make_fake("resend") as fake:
        fake.script(FakeStep(FakeAct.ACCEPT, delay_s=0.2))
        async with httpx.AsyncClient(headers={**credentials(fake), "Idempotency-Key": "k"}) as web:
            running = asyncio.create_task(web.post(fake.url + call.path, json=call.json))
            while not fake.sends:
                await asyncio.sleep(0.01)
            fake.expire_keys()
            answer = await running

        assert answer.status_code == 200, answer.text


async def test_resend_tells_a_wrong_api_key_from_none() -> None:
    async with make_fake("resend") as fake, httpx.AsyncClient() as web:
        call = keyed_call(fake)
        answers = [
            await web.post(**{**call, "headers": headers})
            for headers in ({"Authorization": "Bearer wrong"}, {})
        ]

        named = [(one.status_code, one.json()["name"]) for one in answers]
        assert named == [(403, "invalid_api_key"), (401, "missing_api_key")]
        assert [one.json()["statusCode"] for one in answers] == [403, 401]


@pytest.mark.parametrize(("key", "status"), [("k" * 256, 200), ("k" * 257, 400), ("", 400)])
async def test_a_key_of_resend_has_256_characters_at_most_and_one_at_least(
    key: str, status: int
) -> None:
    async with make_fake("resend") as fake, httpx.AsyncClient() as web:
        call = keyed_call(fake)
        call["headers"]["Idempotency-Key"] = key

        answer = await web.post(**call)

        assert answer.status_code == status, answer.text
        assert (answer.json().get("name") == "invalid_idempotency_key") is (status == 400)
        assert len(fake.messages) == (status == 200)


async def test_a_wrong_key_of_brevo_is_unauthorized() -> None:
    async with make_fake("brevo") as fake, httpx.AsyncClient() as web:
        answer = await web.post(**{**keyed_call(fake), "headers": {"api-key": "wrong"}})

        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("name", ["brevo", "mandrill", "resend"])
async def test_a_webhook_has_the_subject_of_the_mail(name: str) -> None:
    async with make_fake(name) as fake:
        await post(fake, ORDINARY[name][0])

        (hook,) = fake.webhooks(now_s=1_800_000_000)

        text = unquote_plus(hook.body.decode())
        assert '"subject":"Hello"' in text
        assert "Welcome" not in text


SANDBOX: dict[str, dict[str, Any]] = {
    "brevo": {"headers": {"X-Sib-Sandbox": "drop", "idempotencyKey": "k"}},
    "mailjet": {"SandboxMode": True},
    "sendgrid": {"mail_settings": {"sandbox_mode": {"enable": True}}},
}


@pytest.mark.parametrize(("name", "status"), [("brevo", 201), ("mailjet", 200), ("sendgrid", 200)])
async def test_a_call_in_sandbox_mode_is_answered_and_sends_nothing(name: str, status: int) -> None:
    call = ORDINARY[name][0]
    async with make_fake(name) as fake:
        answers = [await post(fake, call, **SANDBOX[name]) for _ in "12"]

        assert [one.status_code for one in answers] == [status, status]
        assert (len(fake.calls), fake.sends, fake.messages) == (2, [], [])
        assert fake.webhooks(now_s=1_800_000_000) == []
        assert fake.calls[0].mails[0].is_test

        fake.script(FakeAct.BUSY)
        assert (await post(fake, call, **SANDBOX[name])).status_code == 429

        sent = await post(fake, call)
        assert len(fake.messages) == len(fake.sends) == 1
        assert fake.messages[0].id in text_of(sent)
        assert fake.messages[0].id not in text_of(answers[0])


async def test_mailjet_gives_no_ids_in_sandbox_mode() -> None:
    async with make_fake("mailjet") as fake:
        answer = await post(fake, ORDINARY["mailjet"][0], SandboxMode=True)

        (message,) = answer.json()["Messages"]
        assert message == {"Status": "success", "To": [{"Email": ANN}], "Cc": [], "Bcc": []}


PLAIN, HTML = {"type": "text/plain", "value": "Hi"}, {"type": "text/html", "value": "<p>Hi</p>"}
FILE = {"content": "SGk=", "filename": "a.txt"}


def to_many(many: int, key: str = "to") -> list[dict[str, str]]:
    return [{"email": f"{key}-{number}@example.net"} for number in range(many)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"content": [HTML, PLAIN]}, "content"),
        ({"content": [{"type": "text/calendar", "value": "x"}, HTML]}, "content"),
        ({"personalizations": [{"to": to_many(1)}] * 1001}, "personalizations"),
        (
            {"personalizations": [{"to": to_many(900), "cc": to_many(101, "cc")}]},
            "personalizations",
        ),
        ({"categories": [str(number) for number in range(11)]}, "categories"),
        ({"headers": {"reply-to": SHOP}}, "headers.reply-to"),
        (
            {"personalizations": [{"to": to_many(1), "headers": {"BCC": SHOP}}]},
            "personalizations.0.headers.BCC",
        ),
        ({"attachments": [{**FILE, "content": "Hi!"}]}, "attachments.0.content"),
        ({"attachments": [{"filename": "a.txt"}]}, "attachments.0.content"),
    ],
)
async def test_sendgrid_names_the_field_that_it_refuses(
    changes: dict[str, Any], field: str
) -> None:
    async with make_fake("sendgrid") as fake:
        answer = await post(fake, ORDINARY["sendgrid"][0], **changes)

        assert answer.status_code == 400
        assert [one["field"] for one in answer.json()["errors"]] == [field]
        assert fake.messages == []


async def test_sendgrid_takes_what_is_just_within_its_limits() -> None:
    async with make_fake("sendgrid") as fake:
        answer = await post(
            fake,
            ORDINARY["sendgrid"][0],
            personalizations=[{"to": [one]} for one in to_many(1000)],
            content=[PLAIN, HTML, {"type": "text/calendar", "value": "x"}],
            categories=[str(number) for number in range(10)],
            headers={"X-Order": "1", "Message-ID": "<1@example.com>"},
            attachments=[FILE, {**FILE, "content": "SGk=\r\n"}],
        )

        assert answer.status_code == 202, answer.text
        assert len(fake.messages) == 1000


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"n" * 20: "v" * 80}, 0),
        ({"n" * 21: "v"}, 300),
        ({"n": "v" * 81}, 300),
        ({"n": 7}, 403),
        ({"n": {"a": "b"}}, 403),
        ("n", 403),
    ],
)
async def test_metadata_of_postmark_are_short_texts(metadata: Any, code: int) -> None:
    async with make_fake("postmark") as fake:
        answer = await post(fake, ORDINARY["postmark"][0], Metadata=metadata)

        assert answer.status_code == (422 if code else 200), answer.text
        assert answer.json()["ErrorCode"] == code
        assert len(fake.messages) == (not code)


@pytest.mark.parametrize(
    "simple",
    [
        {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Charset": "UTF-8"}}},
        {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": "Hi"}, "Html": {"Charset": "x"}}},
        {"Subject": {"Data": "Hello"}, "Body": {"Text": {}, "Html": {"Data": "Hi"}}},
        {"Subject": {"Charset": "UTF-8"}, "Body": {"Text": {"Data": "Hi"}}},
    ],
)
async def test_each_part_of_a_mail_by_ses_has_its_data(simple: dict[str, Any]) -> None:
    async with make_fake("ses") as fake:
        answer = await post(fake, ORDINARY["ses"][0], Content={"Simple": simple})

        assert answer.status_code == 400
        assert answer.headers["x-amzn-errortype"] == "BadRequestException"
        assert fake.messages == []
