"""Forms in parts: what providers post mail in, and what somebody hostile makes of it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.reading import multipart
from mailonce.core.reading.multipart import FormPart, read_parts
from mailonce.errors import ParseError

HEADERS = {"content-type": "multipart/form-data; boundary=xYzZY"}
END = b"--xYzZY--\r\n"


def part(disposition: str, content: bytes, *more: str) -> bytes:
    lines = [f"Content-Disposition: form-data; {disposition}", *more]
    return b"--xYzZY\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n"


def read(body: bytes, headers: Mapping[str, str] = HEADERS) -> list[FormPart]:
    return list(read_parts(headers, body))


def test_content_stays_as_it_came_whatever_its_bytes() -> None:
    odd = bytes(range(256)) + b"\r\n--xYzZ\r\n--\r\n\r\n"
    body = part('name="text"', odd) + part('name="empty"', b"") + END

    assert read(body) == [FormPart("text", None, "", odd), FormPart("empty", None, "", b"")]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('name="a"; filename="b.txt"', "b.txt"),
        ('name="a"; filename=""', ""),
        ("name=a; filename=b.txt", "b.txt"),
        ('filename="b.txt"; name="a"', "b.txt"),
        (r'name="a"; filename="quo\"ted\\.txt"', 'quo"ted\\.txt'),
        ('name="a"; filename="../../etc/passwd"', "../../etc/passwd"),
        ('name="a"; filename="Grüße.txt"', "Grüße.txt"),
        ('name="a"; filename="x"; filename*=UTF-8\'\'Gr%C3%BC%C3%9Fe.txt', "Grüße.txt"),
        ('name="a"; filename="semi; name=other"', "semi; name=other"),
        ('name="a"', None),
    ],
)
def test_a_file_keeps_its_name_however_odd(disposition: str, name: str | None) -> None:
    (one,) = read(part(disposition, b"x", "Content-Type: text/plain; charset=utf-8") + END)

    assert one == FormPart("a", name, "text/plain; charset=utf-8", b"x")


def test_a_name_within_the_quotes_of_another_parameter_is_none() -> None:
    assert read(part('filename="; name=x"', b"1") + END) == []


def test_a_part_without_a_name_or_a_head_is_passed_over() -> None:
    body = b"--xYzZY\r\n\r\nbare\r\n" + part('name="a"', b"1") + END

    assert read(body) == [FormPart("a", None, "", b"1")]


def test_preamble_epilogue_and_spaces_behind_a_boundary_do_not_matter() -> None:
    body = b"preamble\r\n" + part('name="a"', b"1").replace(b"xYzZY\r\n", b"xYzZY \t\r\n")

    assert read(body + END + b"epilogue") == [FormPart("a", None, "", b"1")]


def test_a_line_that_only_begins_like_a_boundary_is_content() -> None:
    content = b"\r\n--xYzZYagain\r\n--xYzZY--more\r\n"

    assert read(part('name="a"', content) + END) == [FormPart("a", None, "", content)]


def test_only_the_parts_that_are_asked_for_are_made() -> None:
    body = part('name="a"', b"1") + part('name="b"', b"2") + END

    assert [one.name for one in read_parts(HEADERS, body, only={"b"})] == ["b"]


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ('multipart/form-data; boundary="with space:"', b"with space:"),
        ("Multipart/Form-Data; charset=utf-8; BOUNDARY=abc", b"abc"),
        ('multipart/form-data; x="; boundary=no"; boundary=yes', b"yes"),
    ],
)
def test_a_boundary_may_be_quoted_and_stand_anywhere(content_type: str, boundary: bytes) -> None:
    body = (part('name="a"', b"1") + END).replace(b"xYzZY", boundary)

    assert read(body, {"content-type": content_type}) == [FormPart("a", None, "", b"1")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--xYzZY",
        b"--xYzZY\r\n",
        part('name="a"', b"it ends too early"),
        b"--xYzZY\r\nContent-Disposition: form-data; name=a\r\n--xYzZY--",
        part('name="a"', b"1") * (multipart.PARTS_MAX + 1) + END,
        part('name="a"', b"1", "X: " + "y" * multipart.PART_HEAD_BYTES_MAX) + END,
        b"\r\n--xYzZY!" * (multipart.FALSE_DELIMITERS_MAX + 1) + b"\r\n" + END,
    ],
    ids=range(8),
)
def test_what_has_no_end_or_too_much_of_something_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        read(body)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/form-data; boundary=" + "b" * 201,
        'multipart/form-data; ";' * 3_000,
        "multipart/form-data" + ";" * 60_000,
    ],
    ids=range(6),
)
def test_without_a_usable_boundary_there_is_no_form(content_type: str) -> None:
    with pytest.raises(ParseError, match="boundary"):
        read(part('name="a"', b"1") + END, {"content-type": content_type})


@given(
    st.lists(
        st.tuples(
            st.text("abc;= ", min_size=1),
            st.none() | st.text(st.characters(exclude_characters='\r\n"\\', codec="utf-8")),
            st.binary(),
        ),
        max_size=5,
    )
)
def test_what_was_written_is_read(parts: list[tuple[str, str | None, bytes]]) -> None:
    written = b"".join(
        part(f'name="{name}"' + ("" if file is None else f'; filename="{file}"'), content)
        for name, file, content in parts
    )

    assert [(one.name, one.filename, one.content) for one in read(written + END)] == parts


@given(st.binary(), st.text(max_size=30))
def test_any_bytes_are_read_or_refused(body: bytes, boundary: str) -> None:
    for text in (body, b"--x\r\n" + body + b"\r\n--x--"):
        try:
            read(text, {"content-type": f"multipart/form-data; boundary={boundary or 'x'}"})
        except ParseError:
            continue
