"""Where a mail ends, and what of it is kept, however it is cut into pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.edge.smtp import replies
from mailonce.edge.smtp.mail_data import MailData, has_bare_line_end

# What an end of a mail could be taken for, by one server or another.
FALSE_ENDS = [
    b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r.\r\n", b"\r\n.\r", b"\n.\r", b"\r.\n",
    b"\r\r\n.\r\n", b"\r\n.\r\r\n", b"\r\n\r.\r\n", b"\r\n.\n\r\n", b"\n\r.\n\r", b"\r\n\n.\r\n",
    b"\0\n.\n", b"\r\0\n.\r\n",
]  # fmt: skip


def collector(*, mail_bytes_max: int = 1 << 20, line_bytes_max: int = 1 << 20) -> MailData:
    return MailData(mail_bytes_max=mail_bytes_max, line_bytes_max=line_bytes_max)


def feed(data: MailData, pieces: list[bytes]) -> bytes:
    """Feed until the end; give what came behind it."""
    for number, piece in enumerate(pieces):
        if piece:
            taken = data.feed(piece)
            if data.is_complete:
                return piece[taken:] + b"".join(pieces[number + 1 :])
            assert taken == len(piece)
    return b""


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


lines = st.lists(
    st.one_of(
        st.binary(max_size=20).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b"")),
        st.sampled_from([b"", b".", b"..", b".x", b"...", b"\0", b"\xff\xfe"]),
    ),
    max_size=8,
)
places = st.lists(st.integers(min_value=0), max_size=6)


@given(lines=lines, places=places, behind=st.sampled_from([b"", b"QUIT\r\n", b".\r\n", b"\n"]))
def test_a_mail_is_given_as_its_sender_wrote_it(
    lines: list[bytes], places: list[int], behind: bytes
) -> None:
    mail = b"".join(line + b"\r\n" for line in lines)
    stuffed = b"".join((b"." if line[:1] == b"." else b"") + line + b"\r\n" for line in lines)
    data = collector()

    rest = feed(data, cut(stuffed + b".\r\n" + behind, places))

    assert data.problem is None
    assert (data.take(), rest) == (mail, behind)


@given(stream=st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b".", b"x", b"\0"])), places=places)
def test_a_bare_line_end_is_seen_wherever_the_pieces_are_cut(
    stream: list[bytes], places: list[int]
) -> None:
    raw = b"".join(stream) + b"\r\n.\r\n"
    data = collector()

    rest = feed(data, cut(raw, places))

    read = raw[: len(raw) - len(rest)]
    bare = read.replace(b"\r\n", b"")
    is_bare = b"\r" in bare or b"\n" in bare
    assert (data.problem is replies.BAD_LINE_END) == is_bare
    assert data.is_complete
    assert (b"\r\n" + read).endswith(b"\r\n.\r\n")


@given(last=st.sampled_from([13, 10, 120]), piece=st.text("\r\nx", min_size=1, max_size=8))
def test_bare_line_ends_are_counted_across_the_edge_of_a_piece(last: int, piece: str) -> None:
    raw = bytes([last]) + piece.encode()
    # The byte before the piece was judged already, unless it is a CR; its last CR is judged later.
    judged = raw.removesuffix(b"\r") if len(raw) > 1 else raw
    bare = judged.replace(b"\r\n", b"") if last == 13 else judged[1:].replace(b"\r\n", b"")

    assert has_bare_line_end(last, raw[1:]) == (b"\r" in bare or b"\n" in bare)


@pytest.mark.parametrize("false_end", FALSE_ENDS)
def test_what_looks_like_an_end_ends_nothing(false_end: bytes, subtests: pytest.Subtests) -> None:
    smuggled = b"MAIL FROM:<forged@b.test>\r\nRCPT TO:<box@in.test>\r\nDATA\r\nforged\r\n.\r\n"
    stream = b"Subject: x\r\n\r\nhello" + false_end + smuggled
    for place in range(1, len(b"Subject: x\r\n\r\nhello" + false_end) + 1):
        with subtests.test(place=place):
            data = collector()

            feed(data, [stream[:place], stream[place:]])

            assert data.problem is replies.BAD_LINE_END
            assert data.held_bytes < 8, "nothing of it is kept"


def test_of_a_mail_that_is_too_large_nothing_is_kept_and_its_end_is_found() -> None:
    data = collector(mail_bytes_max=1000)

    for _ in range(50):
        assert data.feed(b"x" * 98 + b"\r\n") == 100
        assert data.held_bytes <= 1102
    taken = data.feed(b"\r\n.\r\nQUIT\r\n")

    assert taken == 5
    assert data.is_complete
    assert data.problem is replies.LARGE_MAIL
    assert data.held_bytes < 8


@pytest.mark.parametrize("size", [1, 7, 99, 100, 101, 250, 10_000])
def test_the_longest_line_may_be_as_long_as_the_limit(size: int) -> None:
    fits = (b"x" * 98 + b"\r\n") * 5 + b"y\r\n" + b"x" * 98 + b"\r\n.\r\n"
    long = (b"x" * 98 + b"\r\n") * 5 + b"y\r\n" + b"x" * 99 + b"\r\n.\r\n"
    for stream, problem in ((fits, None), (long, replies.LONG_LINE)):
        data = collector(line_bytes_max=100)

        feed(data, [stream[at : at + size] for at in range(0, len(stream), size)])

        assert data.is_complete
        assert data.problem is problem


def test_the_first_line_may_be_the_end() -> None:
    data = collector()

    assert data.feed(b".\r\n") == 3
    assert data.take() == b""


def test_a_mail_that_was_refused_meanwhile_is_still_read_to_its_end() -> None:
    data = collector()
    data.feed(b"one\r\ntwo\r")

    data.refuse(replies.NO_MEMORY)

    assert data.feed(b"\n.\r\nNOOP\r\n") == 4
    assert (data.is_complete, data.problem) == (True, replies.NO_MEMORY)
