from hashlib import sha256

from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.leaf import content_id_of, file_name_of, read_leaf
from mailonce.core.mail.mime.part_tree import read_part_tree
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget, make_mail


def test_content_is_decoded_and_hashed() -> None:
    budget = make_budget()
    part = read_part_tree(
        make_mail(
            "R3LDvMOfZQ==",
            "Content-Type: text/plain; charset=utf-8; name=a.txt",
            "Content-Transfer-Encoding: base64",
            "Content-ID: <x@y>",
        ),
        budget,
    )

    leaf = read_leaf(part, budget)

    assert leaf.content == "Grüße".encode()
    assert leaf.sha256 == sha256(leaf.content).digest()
    assert leaf.decoded is not None
    assert leaf.decoded.text == "Grüße"
    assert (file_name_of(part, budget), content_id_of(part, budget)) == ("a.txt", "x@y")


def test_what_is_beyond_the_budget_is_not_decoded() -> None:
    budget = make_budget(DigestLimits(decoded_bytes_max=5))
    part = read_part_tree(make_mail("too long for it"), budget)

    leaf = read_leaf(part, budget)

    assert (leaf.content, leaf.sha256) == (b"", sha256(b"").digest())
    assert leaf.undecoded_sha256 == sha256(b"too long for it").digest()
    assert budget.problems == {MailProblem.TOO_LARGE}


def test_a_long_text_is_decoded_in_part() -> None:
    budget = make_budget(DigestLimits(text_bytes_max=3))
    leaf = read_leaf(read_part_tree(make_mail("abcdef"), budget), budget)

    assert leaf.content == b"abcdef"
    assert leaf.decoded is not None
    assert leaf.decoded.text == "abc"
    assert leaf.is_truncated
