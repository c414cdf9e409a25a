"""A form with files: readers find the fields, whatever they hold."""

from email import message_from_bytes
from email.message import Message

import pytest

from mailonce.core.sends.form_data import FormFile, form_data

FILE = FormFile("message", "message.eml", "message/rfc822", b"A: b\r\n\r\n--x\r\n")


def test_fields_and_files_are_read_back() -> None:
    fields = [("to", "ann@example.net"), ("v:a", '"; name="to"\r\n\r\neve'), ("o:tag", "ä")]

    type_, body = form_data(fields, [FILE])

    form = message_from_bytes(f"Content-Type: {type_}\r\n\r\n".encode() + body)
    parts = [part for part in form.get_payload() if isinstance(part, Message)]
    read = [
        (part.get_param("name", header="content-disposition"), part.as_bytes().split(b"\n\n", 1)[1])
        for part in parts
    ]
    assert [name for name, _ in read] == ["to", "v:a", "o:tag", "message"]
    assert read[1][1].replace(b"\n", b"\r\n") in body
    assert form_data(fields, [FILE]) == (type_, body)
    assert form_data(fields[:1], [FILE])[0] != type_


def test_a_name_that_would_end_its_line_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="escaped"):
        form_data([('a"\r\n', "b")], [])
