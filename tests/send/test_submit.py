"""A request to send is taken once, with all its recipients, or refused with a sentence."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, delete

from mailonce.core.events.suppression import Cause
from mailonce.core.sends.mail_content import read_content
from mailonce.core.sends.mail_template import MailTemplate
from mailonce.core.sends.outgoing_mail import OutgoingAttachment
from mailonce.core.sends.send_key import derived_key, given_key
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.sends.send_request import SendPriority
from mailonce.errors import MissingError, ParseError, RefusedError, SizeError
from mailonce.send.render import TemplateError
from mailonce.send.submit import KeyReuseError, StreamRule
from mailonce.store.ledger import suppressions
from mailonce.store.ledger.suppressions import LiftTarget
from mailonce.store.schema.send_tables import SEND_ACTS, SEND_CONTENTS, SEND_REQUESTS
from mailonce.store.schema.tables import CLAIMS
from mailonce.store.sends import templates
from tests.core.sends.send_requests import make_recipient, make_request
from tests.send.office import Office

CAUSE = derived_key(cause_id="order-1", stream="", template="receipt")


async def put_template(office: Office, version: int = 1, **changes: Any) -> None:
    template = MailTemplate(
        workspace="default", name="receipt", version=version,
        subject="Receipt for {{ name }}", html="<p>{{ total }} EUR, {{ name }}", text=None,
        created_ms=1,
    )  # fmt: skip
    await office.database.write(lambda tx: templates.put(tx, replace(template, **changes)))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"subject": "{{ gone }}"}, "`subject` is empty"),
        ({"html": " {{ gone }} "}, "the mail is empty: there is nothing in its `text` or `html`"),
    ],
)
async def test_a_template_that_makes_an_empty_mail_is_refused(
    office: Office, template: dict[str, Any], words: str
) -> None:
    await office.add_sender()
    await put_template(office, **template)
    fields = {"subject": None, "text": None, "variables": {"name": "A", "total": 1, "gone": ""}}

    with pytest.raises(ParseError, match=words) as refused:
        await office.submit(make_request(key=CAUSE, template="receipt", **fields))

    assert "(the template makes it)" in str(refused.value)
    assert await office.rows() == []


async def forget_claims(office: Office) -> None:
    """Let more than two windows pass."""

    def work(tx: Connection) -> None:
        for table in CLAIMS:
            tx.execute(delete(table))

    await office.database.write(work)


async def suppress(office: Office, address: str, cause: Cause = Cause.HARD) -> None:
    await office.database.write(
        lambda tx: suppressions.suppress(
            tx, "default", address, LiftTarget("", cause), id_=office.clock.new_id(),
            stamp=bytes(16), reason=None, now_ms=1,  # type: ignore[arg-type]
        )
    )  # fmt: skip


async def contents(office: Office) -> list[Any]:
    return [read_content(row["body"]) for row in await office.rows(SEND_CONTENTS)]


async def test_of_fifty_copies_at_once_one_is_new(office: Office) -> None:
    await office.add_sender()

    answers = await asyncio.gather(*(office.submit(make_request()) for _ in range(50)))

    assert len({one.send.id for [one] in answers}) == 1
    assert [one.is_replayed for [one] in answers].count(False) == 1
    assert len(await office.rows()) == len(await office.rows(SEND_CONTENTS)) == 1


async def test_of_two_mails_under_one_key_at_once_one_is_refused(office: Office) -> None:
    await office.add_sender()

    results = await asyncio.gather(
        *(office.submit(make_request(text=f"Words {n}")) for n in range(10)),
        return_exceptions=True,
    )

    refused = [one for one in results if isinstance(one, KeyReuseError)]
    assert len(refused) == 9
    sentence = "send key 'k-1' already stands for another mail, which differs in `text`; use a new"
    assert {str(one).removesuffix(" key for a new mail") for one in refused} == {sentence}
    assert len(await office.rows()) == 1


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"onboarding_experiment": "1"}, "'onboarding_experiment' of 21 characters.* takes 20"),
        ({"plan": "x" * 81}, "81 characters for 'plan', and Postmark takes 80"),
        ({f"n{n}": "1" for n in range(10)}, "has 10 fields, and Postmark takes 9"),
        ({"Plan": "a", "plan": "b"}, "'plan' twice for Postmark, which ignores case"),
    ],
    ids=["name", "value", "many", "case"],
)
async def test_metadata_that_the_provider_refuses_are_refused_at_the_door(
    office: Office, metadata: dict[str, str], sentence: str
) -> None:
    await office.add_sender(provider="postmark")
    await office.add_sender("other")

    with pytest.raises(ParseError, match=sentence):
        await office.submit(make_request(metadata=metadata))

    assert await office.rows() == []
    [by_other] = await office.submit(make_request(metadata=metadata, sender="other"))
    assert not by_other.is_replayed


async def test_metadata_within_the_limits_of_the_provider_are_taken(office: Office) -> None:
    await office.add_sender(provider="postmark")
    metadata = {f"n{n}": "ü" * 80 for n in range(8)} | {"n" * 20: ""}

    [taken] = await office.submit(make_request(metadata=metadata))

    assert not taken.is_replayed


@pytest.mark.parametrize("forgets", [False, True], ids=["within", "beyond"])
async def test_a_key_stands_for_its_mail_within_the_window_of_claims_and_beyond(
    office: Office,
    forgets: bool,  # noqa: FBT001
) -> None:
    await office.add_sender()
    [first] = await office.submit(make_request("ann@example.com"))
    if forgets:
        await forget_claims(office)

    [again] = await office.submit(make_request("ann@example.com"))
    others = [
        make_request("ann@example.com", subject="Other", text="Other"),
        make_request("bob@example.com"),
        make_request("ann@example.com", "bob@example.com"),
    ]
    sentences = []
    for other in others:
        with pytest.raises(KeyReuseError) as refused:
            await office.submit(other)
        sentences.append(str(refused.value))

    assert (again.is_replayed, again.send.id) == (True, first.send.id)
    assert ["`subject`, `text`" in one for one in sentences] == [True, False, False]
    assert ["`to`" in one for one in sentences] == [False, True, True]
    assert len(await office.rows()) == len(await office.rows(SEND_REQUESTS)) == 1


async def test_two_templates_of_one_cause_are_two_mails(office: Office) -> None:
    await office.add_sender()
    await put_template(office)
    await put_template(office, name="shipped")
    words = {"subject": None, "text": None, "variables": {"name": "Ann", "total": 12}}

    [one] = await office.submit(make_request(key=CAUSE, template="receipt", **words))
    shipped = derived_key(cause_id="order-1", stream="", template="shipped")
    [two] = await office.submit(make_request(key=shipped, template="shipped", **words))
    [again] = await office.submit(make_request(key=CAUSE, template="receipt", **words))

    assert one.send.id != two.send.id
    assert (again.send.id, again.is_replayed) == (one.send.id, True)


async def test_a_retry_after_the_copy_changed_is_the_same_send_with_the_first_words(
    office: Office,
) -> None:
    await office.add_sender()
    await put_template(office)
    request = make_request(
        key=CAUSE, template="receipt", subject=None, text=None,
        variables={"name": "Ann", "total": 12},
    )  # fmt: skip
    [first] = await office.submit(request)
    await put_template(office, version=2, html="<p>All new {{ name }}")

    [again] = await office.submit(request)

    assert (again.is_replayed, again.send.id) == (True, first.send.id)
    [content] = await contents(office)
    assert (content.subject, content.html) == ("Receipt for Ann", "<p>12 EUR, Ann")
    assert content.text == "12 EUR, Ann\n"
    assert first.send.template_version == 1


async def test_a_version_can_be_named(office: Office) -> None:
    await office.add_sender()
    await put_template(office)
    await put_template(office, version=2, subject="New")
    words = {"subject": None, "text": None, "variables": {"name": "Ann", "total": 1}}

    await office.submit(make_request(template="receipt", template_version=1, **words))

    [content] = await contents(office)
    assert content.subject == "Receipt for Ann"


async def test_each_recipient_may_have_variables_of_its_own(office: Office) -> None:
    await office.add_sender()
    await put_template(office)
    people = tuple(make_recipient(f"a{n}@example.com", total=n % 2) for n in range(4))

    await office.submit(
        make_request(
            recipients=people, template="receipt", subject=None, text=None,
            variables={"name": "you"},
        )
    )  # fmt: skip

    assert sorted(one.html for one in await contents(office)) == ["<p>0 EUR, you", "<p>1 EUR, you"]
    assert len(await office.rows()) == 4


async def test_html_without_text_gets_one(office: Office) -> None:
    await office.add_sender()

    await office.submit(make_request(text=None, html="<p>Hi <b>you"))
    await office.submit(
        make_request(key=given_key("k-2"), text=None, html="<p>Hi</p>" + "<i>x</i>" * 2_000)
    )

    short, long = sorted((one.text for one in await contents(office)), key=len)
    assert (short, long[:4]) == ("Hi you\n", "Hi\n\n"[:3] + "x")


async def test_what_is_suppressed_is_kept_and_never_pending(office: Office) -> None:
    await office.add_sender()
    await suppress(office, "ann@example.com")

    ann, bob = await office.submit(make_request("Ann@example.com", "bob@example.com"))

    assert [one.send.send_state for one in (ann, bob)] == [
        SendState.SUPPRESSED,
        SendState.PENDING,
    ]
    assert ann.send.error == "suppressed: hard"
    assert ann.send.done_ms == ann.send.made_ms


async def test_whoever_may_send_all_the_same_is_written_down(office: Office) -> None:
    await office.add_sender()
    await suppress(office, "ann@example.com")

    [ann] = await office.submit(make_request(ignores_suppressions=True))

    assert (ann.send.send_state, ann.send.is_forced) == (SendState.PENDING, True)
    [act] = await office.rows(SEND_ACTS)
    assert (act["act"], act["by"]) == ("forced", "test")


async def test_streams_give_priority_sender_and_links(office: Office) -> None:
    await office.add_sender()
    await office.add_sender("codes", provider="postmark")
    streams = {
        "codes": StreamRule(priority=SendPriority.HIGH, sender="codes"),
        "news": StreamRule(unsubscribe=True),
    }

    [code] = await office.submit(make_request(stream="codes"), streams=streams)
    [news] = await office.submit(
        make_request(stream="news", key=given_key("n")), streams=streams, has_links=True
    )
    with pytest.raises(RefusedError, match="public_url"):
        await office.submit(make_request(stream="news", key=given_key("x")), streams=streams)

    assert (code.send.sender, code.send.lane) == ("snr_codes", 0)
    assert (news.send.sender, news.send.lane) == ("snr_out", 1)
    assert sorted(one.is_unsubscribable for one in await contents(office)) == [False, True]


async def test_what_cannot_be_sent_leaves_nothing_behind(
    office: Office, subtests: pytest.Subtests
) -> None:
    await office.add_sender()
    await put_template(office)
    await put_template(office, name="loops", html="{% for a in range(99999) %}" * 2 + "x"
                       + "{% endfor %}" * 2)  # fmt: skip
    await put_template(office, name="reaches", html="{{ ''.__class__.__mro__ }}")
    await put_template(office, name="injects", subject="Hi {{ name }}")
    large = OutgoingAttachment(name="a", type="a/b", content=b"x" * (25 << 20))
    words: dict[str, Any] = {"subject": None, "text": None}
    given = {"name": "Ann", "total": 1}
    wrong: dict[type[Exception], list[dict[str, Any]]] = {
        ParseError: [
            {"subject": "a\r\nBcc: b@c.d"},
            {"recipients": (make_recipient("ann@example.com\nx"),)},
            {"template": "injects", "variables": given | {"name": "a\r\nBcc: b@c.d"}, **words},
            {"send_at_ms": 1 << 60},
        ],
        SizeError: [{"attachments": (large,)}],
        MissingError: [{"template": "nope", **words}, {"sender": "nope"}],
        TemplateError: [
            {"template": "loops", "variables": given, **words},
            {"template": "reaches", "variables": given, **words},
            {"template": "receipt", "variables": {"name": "Ann"}, **words},
        ],
    }
    for error, requests in wrong.items():
        for changes in requests:
            with subtests.test(str(changes)[:60]), pytest.raises(error):
                await office.submit(make_request(**changes))

    assert await office.rows() == []
    assert await office.rows(SEND_CONTENTS) == []
    assert await office.rows(SEND_REQUESTS) == []


async def test_without_a_sender_nothing_is_taken(office: Office) -> None:
    with pytest.raises(RefusedError, match="there is no sender yet"):
        await office.submit(make_request())


async def test_the_first_sender_that_is_on_is_the_default(office: Office) -> None:
    await office.add_sender("one", off="broken")
    await office.add_sender("two", provider="postmark")

    [sent] = await office.submit(make_request())

    assert sent.send.sender == "snr_two"


async def test_a_workspace_has_keys_of_its_own(office: Office) -> None:
    await office.add_sender()
    await office.submit(make_request())

    with pytest.raises(RefusedError, match="there is no sender yet"):
        await office.submissions().submit("other", make_request(text="Other"), by="x")
