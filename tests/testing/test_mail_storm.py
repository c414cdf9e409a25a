from collections import Counter

import pytest

from mailonce.testing import PlanOptions, make_simulator
from mailonce.testing.mail_storm import HookSide, make_mails, plan_deliveries, plan_mails

NOW_S = 1_767_225_600
PEOPLE = ["ann@in.test", "bob@in.test"]


def test_mails_go_to_all_recipients_in_turn_and_differ() -> None:
    mails = make_mails(PEOPLE, "run", 5, now_s=NOW_S)

    assert [mail.recipients for mail in mails] == [(PEOPLE[number % 2],) for number in range(5)]
    assert len({mail.header("Message-ID") for mail in mails}) == 5
    assert make_mails(PEOPLE, "run", 5, now_s=NOW_S) == mails


@pytest.mark.parametrize(("duplicates", "lost"), [(0, 0), (0.3, 3), (1, 10), (2.5, 25)])
def test_as_many_replies_are_lost_as_copies_are_asked_for(duplicates: float, lost: int) -> None:
    mails = make_mails(PEOPLE, "run", 10, now_s=NOW_S)

    deliveries = plan_deliveries(mails, PlanOptions(duplicates=duplicates, shuffle=True))

    assert Counter(one.mail.id for one in deliveries) == Counter(mail.id for mail in mails)
    assert sum(one.lost_answers for one in deliveries) == lost


def test_a_hook_posts_each_mail_and_the_copies_that_were_planned() -> None:
    mails = make_mails(PEOPLE, "run", 10, now_s=NOW_S)
    side = HookSide(make_simulator("postmark", "1"), mails)

    plan = plan_mails(mails, PlanOptions(duplicates=1, corrupt=0.5, shuffle=True))
    posts = [side.post(call.happenings, now_s=NOW_S) for call in plan.calls]

    undamaged = [call for call in plan.calls if not call.damaged]
    assert {call.happenings[0].id for call in undamaged} == {mail.id for mail in mails}
    assert len(plan.order) > len(undamaged) > len(mails)
    assert all(b"Simulated mail" in post.body for post in posts)
