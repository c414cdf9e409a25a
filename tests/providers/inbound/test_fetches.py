"""What a hook only announced is fetched from the provider's own hosts, credentials added last."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce import providers
from mailonce.core.arrivals.mail_fetch import (
    NO_KEY,
    FetchAnswer,
    FetchFlow,
    FetchOutcome,
    FetchProblem,
    FetchRequest,
    MailFetch,
    run_fetch,
)
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    FetchContent,
    FieldAttachment,
    FieldsContent,
    MimeContent,
)
from mailonce.providers import inbound
from tests.providers.cases import parse, provider_of, source_of
from tests.providers.inbound.hooks import NOW_S, Rig, Way, fetched, make_mail, rig_of

MAIL = make_mail()
WAYS = [
    Way("resend", "raw"),
    Way("resend", "parsed"),
    Way("mailgun", "stored"),
    Way("ses", "s3"),
    Way("brevo", "parsed"),
]
# The hosts that each may ask, and with what it proves itself there.
HOSTS: dict[str, dict[str, str | None]] = {
    "resend": {"https://api.resend.com/": "Authorization", "https://inbound-cdn.resend.com/": None},
    "mailgun": {"https://storage-us-east4.api.mailgun.net/": "Authorization"},
    "ses": {"https://s3.eu-west-1.amazonaws.com/": "authorization"},
    "brevo": {"https://api.brevo.com/": "api-key"},
}
every_way = pytest.mark.parametrize("way", WAYS, ids=str)


def content_of(rig: Rig) -> FetchContent:
    content = rig.mail(MAIL).content
    assert isinstance(content, FetchContent)
    return content


@cache
def rig_and_content(way: Way) -> tuple[Rig, FetchContent]:
    rig = rig_of(way)
    return rig, content_of(rig)


def fetch_of(content: FetchContent) -> MailFetch:
    fetch = inbound.find(content.what)
    assert fetch is not None
    return fetch


async def run(
    content: FetchContent, source: Source, answers: Mapping[str, FetchAnswer] | list[FetchAnswer]
) -> Any:
    """Run a fetch with answers by URL, or one after the other; the last is given again."""
    told = list(answers) if isinstance(answers, list) else []

    async def ask(request: FetchRequest) -> FetchAnswer:
        if isinstance(answers, Mapping):
            return answers.get(request.url, FetchAnswer(status=404))
        return told.pop(0) if len(told) > 1 else told[0]

    return await run_fetch(
        fetch_of(content), content.arguments, source, ask, now_ms=lambda: NOW_S * 1000
    )


@every_way
async def test_only_the_providers_hosts_are_asked_and_credentials_stay_there(way: Way) -> None:
    rig = rig_of(way)

    outcome, asked = await fetched(rig, content_of(rig))

    assert isinstance(outcome, MimeContent | FieldsContent)
    for request in asked:
        hosts = HOSTS[way.name].items()
        ((_, proof),) = [(host, name) for host, name in hosts if request.url.startswith(host)]
        names = [name for name, _ in request.headers]
        assert (proof in names) == (proof is not None)
        secret = rig.source.api_keys[0]
        assert secret not in request.url
        if proof is None:
            assert request.headers == ()


@every_way
async def test_without_an_api_key_the_operator_is_told_and_nothing_is_lost(way: Way) -> None:
    rig = rig_of(way)
    content = content_of(rig)
    bare = source_of(way.name)

    outcome = await run(content, bare, rig.simulator.answers)

    assert outcome == NO_KEY
    assert not NO_KEY.is_final


@every_way
@pytest.mark.parametrize("status", [401, 404, 429, 500, 503, 301])
async def test_what_may_pass_is_no_final_answer(way: Way, status: int) -> None:
    rig = rig_of(way)

    outcome = await run(content_of(rig), rig.source, [FetchAnswer(status=status)])

    assert isinstance(outcome, FetchProblem)
    assert not outcome.is_final


@every_way
@given(body=st.binary() | st.sampled_from([b"{}", b"[]", b"null", b'{"raw": 5, "body-mime": 5}']))
def test_any_answer_is_content_or_a_problem(way: Way, body: bytes) -> None:
    rig, content = rig_and_content(way)
    flow = fetch_of(content).begin(content.arguments, rig.source)
    next(flow)

    outcomes = list(_outcome(flow, FetchAnswer(status=200, body=body)))

    assert len(outcomes) == 1
    assert isinstance(outcomes[0], MimeContent | FieldsContent | FetchProblem)


def _outcome(flow: FetchFlow, answer: FetchAnswer) -> Iterator[FetchOutcome]:
    """Give every request the same answer, and the outcome once there is one."""
    for _ in range(10):
        try:
            flow.send(answer)
        except StopIteration as end:
            yield end.value
            return


@pytest.mark.parametrize(
    "arguments",
    [{}, {"email_id": "../domains"}, {"url": "https://example.com/"}, {"bucket": 5}, {"fields": 1}],
)
@pytest.mark.parametrize(
    "what", ["resend.email", "mailgun.message", "ses.object", "brevo.attachments"]
)
async def test_arguments_that_nobody_honest_wrote_ask_nobody(
    what: str, arguments: dict[str, Any]
) -> None:
    content = FetchContent(what=what, arguments=arguments)

    outcome = await run(content, source_of(what.split(".", maxsplit=1)[0]), [])

    assert isinstance(outcome, FetchProblem)
    assert outcome.is_final


@pytest.mark.parametrize("what", ["", "resend", "resend.other", "acme.mail", "os.system", "..ses"])
def test_what_nobody_offers_is_not_found(what: str) -> None:
    assert inbound.find(what) is None


def test_every_fetch_of_a_record_is_found_by_its_name() -> None:
    hooks = [provider_of(name).inbound for name in providers.BUILTIN]
    fetches = {fetch.what: fetch for hook in hooks if hook for fetch in hook.fetches}

    assert {what: inbound.find(what) for what in fetches} == fetches
    assert len(fetches) == 4


class TestResend:
    RIG = rig_of(Way("resend", "raw"))

    async def test_a_mail_that_lies_elsewhere_is_not_fetched(self) -> None:
        for url in (
            "https://example.com/raw",
            "http://inbound-cdn.resend.com/raw",
            "https://inbound-cdn.resend.com.example.com/raw",
            "https://inbound-cdn.resend.com@example.com/raw",
        ):
            body = json.dumps({"raw": {"download_url": url}}).encode()

            outcome = await run(
                content_of(self.RIG), self.RIG.source, [FetchAnswer(status=200, body=body)]
            )

            assert isinstance(outcome, FetchProblem)
            assert outcome.is_final

    async def test_a_download_that_has_expired_begins_anew(self) -> None:
        content = content_of(self.RIG)
        answers = self.RIG.simulator.answers
        first = next(answer for url, answer in answers.items() if "api.resend" in url)

        outcome = await run(content, self.RIG.source, [first, FetchAnswer(status=403)])

        assert isinstance(outcome, FetchProblem)
        assert not outcome.is_final

    def test_what_the_event_said_stands_where_fetching_was_given_up(self) -> None:
        content = content_of(self.RIG)

        fields = fetch_of(content).fallback(content.arguments)

        assert fields is not None
        assert fields.subject == "Grüße aus Köln"
        assert [one.is_missing for one in fields.attachments] == [True, True]


class TestBrevo:
    RIG = rig_of(Way("brevo", "parsed"))

    async def test_an_attachment_that_is_gone_stays_missing_and_costs_no_other(self) -> None:
        gone, there = FetchAnswer(status=410), FetchAnswer(status=200, body=b"A")

        outcome = await run(content_of(self.RIG), self.RIG.source, [gone, there])

        assert isinstance(outcome, FieldsContent)
        assert [(one.content, one.is_missing) for one in outcome.attachments] == [
            (b"", True),
            (b"A", False),
        ]

    async def test_the_answers_type_has_the_charset(self) -> None:
        answer = FetchAnswer(
            status=200, headers={"content-type": "text/plain; charset=iso-8859-1"}, body=b"\xfc"
        )

        outcome = await run(content_of(self.RIG), self.RIG.source, [answer])

        assert isinstance(outcome, FieldsContent)
        assert outcome.attachments[0] == FieldAttachment(
            name="logo.png",
            type="text/plain; charset=iso-8859-1",
            content=b"\xfc",
            content_id="logo@x",
            is_inline=True,
        )

    def test_a_token_that_is_none_is_not_kept(self) -> None:
        attachments = [{"Name": "a", "DownloadToken": one} for one in ("\ud800", "ok", 5)]
        mail = parse("brevo", {"items": [{"Attachments": attachments}]}).mails[0]

        assert isinstance(mail.content, FetchContent)
        assert mail.content.arguments["tokens"] == ["", "ok", ""]

    async def test_a_token_cannot_lead_to_another_path(self) -> None:
        content = content_of(self.RIG)
        arguments = {**content.arguments, "tokens": ["../../account?x=1#y", "ok"]}
        flow = fetch_of(content).begin(arguments, self.RIG.source)

        assert next(flow).url.endswith("/v3/inbound/attachments/..%2F..%2Faccount%3Fx%3D1%23y")


class TestSes:
    # The signatures were computed apart from this code, by botocore's S3SigV4Auth.
    KEY = "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

    def signed(self, key: str, object_key: str = "in/m 1=ü") -> FetchRequest:
        content = FetchContent(
            what="ses.object",
            arguments={"bucket": "examplebucket", "key": object_key, "region": "us-east-1"},
        )
        source = source_of("ses", api_keys=(key,))
        fetch = fetch_of(content)
        request = next(fetch.begin(content.arguments, source))
        signed = fetch.authorize(request, source, 1_369_353_600_000)
        assert isinstance(signed, FetchRequest), signed
        return signed

    def test_the_signature_is_amazons(self) -> None:
        request = self.signed(self.KEY)

        assert request.url == "https://s3.us-east-1.amazonaws.com/examplebucket/in/m%201%3D%C3%BC"
        headers = dict(request.headers)
        assert headers["x-amz-date"] == "20130524T000000Z"
        assert headers["authorization"] == (
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
            "Signature=20bbaf0599690e40275ef4a1a7877996de2d65ee6e106ca0a330a727488c24f5"
        )

    def test_temporary_keys_bring_their_token(self) -> None:
        headers = dict(self.signed(self.KEY + ":tok/en+1==").headers)

        assert headers["x-amz-security-token"] == "tok/en+1=="
        assert headers["authorization"].endswith(
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "
            "Signature=0123e7cc9e1eedb0716757830fd725e6257d3217805159c501db06ea11303406"
        )

    @pytest.mark.parametrize("key", ["AKID", "AKID:", ":secret"])
    def test_half_a_key_is_told_to_the_operator(self, key: str) -> None:
        rig = rig_of(Way("ses", "s3"))
        content = content_of(rig)
        source = source_of("ses", api_keys=(key,))
        fetch = fetch_of(content)

        problem = fetch.authorize(next(fetch.begin(content.arguments, source)), source, 0)

        assert isinstance(problem, FetchProblem)
        assert "ID:secret" in problem.reason

    def test_china_has_its_own_hosts(self) -> None:
        arguments = {"bucket": "my-mail", "key": "m1", "region": "cn-north-1"}
        flow = fetch_of(FetchContent(what="ses.object", arguments={})).begin(
            arguments, source_of("ses")
        )

        assert next(flow).url == "https://s3.cn-north-1.amazonaws.com.cn/my-mail/m1"
