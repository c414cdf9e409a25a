"""What each provider's post says of a mail, case by case."""

from collections.abc import Sequence

import pytest

from mailonce import providers
from mailonce.core.events.event import EventType
from tests.providers.cases import provider_of
from tests.providers.inbound.cases import GOLDEN, MailCase, all_cases, each_provider, show


@each_provider()
def test_a_post_hands_over_the_mails_that_its_golden_case_says(
    cases: Sequence[MailCase], subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            parsed = case.parse()

            assert [show(mail) for mail in parsed.mails] == case.mails
            assert len(parsed.unreadable) == case.unreadable


@each_provider()
def test_every_mail_has_an_event_for_where_no_inbox_takes_it(
    cases: Sequence[MailCase], subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            parsed = case.parse()

            inbound = [one for one in parsed.events if one.type is EventType.INBOUND]
            assert len(inbound) >= len(parsed.mails)


def test_each_provider_that_hands_over_mail_has_cases_in_each_form_of_content() -> None:
    formats: dict[str, set[str]] = {}
    for case in all_cases():
        for mail in case.mails:
            content = mail["content"]
            kind = "fetch" if "fetch" in content else next(iter(content))
            formats.setdefault(case.provider, set()).add(kind)
    hooks = {name: provider_of(name).inbound for name in providers.BUILTIN}

    declared = {name: {str(one) for one in hook.content} for name, hook in hooks.items() if hook}

    assert formats == declared


def test_no_golden_folder_is_left_of_a_provider_that_is_gone() -> None:
    folders = {folder.name for folder in GOLDEN.iterdir()}

    assert folders == {name for name in providers.BUILTIN if provider_of(name).inbound}
