import pytest

from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.message_ids import read_message_id, read_references, thread_of
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize(
    ("value", "message_id"),
    [
        ("<a@b>", "a@b"),
        (" <A@b> (comment)", "A@b"),
        ("a@b", "a@b"),
        ("<a@b", "a@b"),
        ("<a @b>", "a@b"),
        ("<>", None),
        ("", None),
        (None, None),
        ("<a\x00b\udcff>", "a\ufffdb\ufffd"),
    ],
)
def test_an_id_is_read_without_its_brackets(value: str | None, message_id: str | None) -> None:
    assert read_message_id(value) == message_id


def test_references_keep_their_order_once() -> None:
    assert read_references(["<a@x> <b@x>\t<a@x>,<c@x>"], make_budget()) == ("a@x", "b@x", "c@x")
    assert read_references(["your mail of Monday"], make_budget()) == ()


def test_of_too_many_references_the_root_and_the_nearest_stay() -> None:
    budget = make_budget(DigestLimits(references_max=3))
    value = " ".join(f"<{n}@x>" for n in range(1_000))

    assert read_references([value], budget) == ("0@x", "998@x", "999@x")
    assert budget.problems == {MailProblem.TOO_MANY_REFERENCES}


def test_a_mail_and_its_answers_share_a_thread() -> None:
    first = thread_of("1@x", (), ())
    answer = thread_of("2@x", ("1@x",), ("1@x",))
    next_answer = thread_of("3@x", ("1@x", "2@x"), ("2@x",))
    without_references = thread_of("4@x", (), ("1@x",))

    assert first == answer == next_answer == without_references
    assert thread_of("5@x", (), ()) != first
    assert thread_of(None, (), ()) is None
