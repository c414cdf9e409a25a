import pytest

from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.mime.part_tree import MailPart, read_part_tree
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget, make_mail


def shape(part: MailPart) -> object:
    if part.children:
        return (part.type.partition("/")[2], *map(shape, part.children))
    return part.encoded.decode()


def read_shape(body: str, *fields: str) -> tuple[object, set[MailProblem]]:
    budget = make_budget()
    root = read_part_tree(make_mail(body, *fields).replace(b"\r\n", b"\n"), budget)
    return shape(root), budget.problems


MIXED = "Content-Type: multipart/mixed; boundary=b"


@pytest.mark.parametrize(
    ("body", "found", "problems"),
    [
        ("pre\n--b\n\none\n--b\n\ntwo\n--b--\npost", ("mixed", "one", "two"), set()),
        ("--b\n\none\n--b--", ("mixed", "one"), set()),
        ("--b  \n\none\n--b-- \n", ("mixed", "one"), set()),
        ("--b\n\none\n--bb\ntwo\n--b--", ("mixed", "one\n--bb\ntwo"), set()),
        ("--b\n\none\n--b\n\ntwo", ("mixed", "one", "two"), {MailProblem.UNTERMINATED_MULTIPART}),
        ("--b\n--b\n\ntwo\n--b--", ("mixed", "", "two"), set()),
        (
            "--b\nContent-Type: multipart/alternative; boundary=c\n\n--c\n\nx\n--b\n\ny\n--b--",
            ("mixed", ("alternative", "x"), "y"),
            {MailProblem.UNTERMINATED_MULTIPART},
        ),
        # The declared boundary is not the one in use.
        ("--other\n\none\n--other--", ("mixed", "one"), {MailProblem.MISSING_BOUNDARY}),
        ("just text", "just text", {MailProblem.MISSING_BOUNDARY}),
    ],
)
def test_parts_are_found_however_they_end(
    body: str, found: object, problems: set[MailProblem]
) -> None:
    assert read_shape(body, MIXED) == (found, problems)


def test_a_multipart_without_a_boundary_is_still_taken_apart() -> None:
    body = "--x\n\none\n--x\n\ntwo\n--x--"

    assert read_shape(body, "Content-Type: multipart/mixed") == (
        ("mixed", "one", "two"),
        {MailProblem.MISSING_BOUNDARY},
    )


def test_a_mail_of_too_many_parts_keeps_the_rest_in_one() -> None:
    budget = make_budget(DigestLimits(parts_max=4))
    body = "".join(f"--b\n\n{n}\n" for n in range(10)) + "--b--\n"

    root = read_part_tree(make_mail(body, MIXED), budget)

    assert len(root.children) == 4
    assert root.children[-1].encoded.count(b"--b") == 7
    assert budget.problems == {MailProblem.TOO_MANY_PARTS}


def test_a_mail_too_deep_is_opaque_below() -> None:
    budget = make_budget(DigestLimits(depth_max=3))
    body = "".join(f"--{n}\nContent-Type: multipart/mixed; boundary={n + 1}\n\n" for n in range(10))

    root = read_part_tree(make_mail(body, "Content-Type: multipart/mixed; boundary=0"), budget)

    depth, part = 0, root
    while part.children:
        depth, part = depth + 1, part.children[0]
    assert depth == 3
    assert part.type == "application/octet-stream"
    assert MailProblem.TOO_DEEP in budget.problems


def test_lines_that_only_begin_like_a_boundary_are_bounded() -> None:
    budget = make_budget(DigestLimits(delimiters_max=50))

    read_part_tree(make_mail("--bx\n" * 1_000, MIXED), budget)

    assert MailProblem.TOO_COMPLEX in budget.problems


def test_a_search_beyond_the_budget_is_not_begun() -> None:
    budget = make_budget(DigestLimits(scanned_bytes_max=10))

    root = read_part_tree(make_mail("--b\n\none\n--b--\n", MIXED), budget)

    assert (root.children, root.type) == ((), "application/octet-stream")
    assert budget.problems == {MailProblem.TOO_COMPLEX}


def test_a_header_too_large_is_cut_and_the_body_is_found_behind_it() -> None:
    budget = make_budget(DigestLimits(header_bytes_max=1_000))
    raw = b"Subject: x\r\n" + b"X: y\r\n" * 1_000 + b"\r\nbody"

    root = read_part_tree(raw, budget)

    assert root.fields.first("subject") == "x"
    assert root.encoded == b"body"
    assert budget.problems == {MailProblem.HEADER_TOO_LARGE}


def test_the_default_of_a_digest_is_a_message() -> None:
    body = "--b\n\nSubject: inner\n\nx\n--b--"
    root = read_part_tree(
        make_mail(body, "Content-Type: multipart/digest; boundary=b"), make_budget()
    )

    assert root.children[0].type == "message/rfc822"


@pytest.mark.parametrize(
    ("type_", "read_as"),
    [("text", "text/plain"), ("html", "text/html"), ("a/b/c", "text/plain"), ("", "text/plain")],
)
def test_a_type_that_is_none_is_text(type_: str, read_as: str) -> None:
    root = read_part_tree(make_mail("x", f"Content-Type: {type_}"), make_budget())

    assert root.type == read_as
