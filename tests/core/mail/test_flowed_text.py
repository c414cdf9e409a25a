from mailonce.core.mail.mime.flowed_text import unflow


def test_soft_line_ends_are_joined() -> None:
    assert unflow("one \ntwo\nthree", deletes_space=False) == "one two\nthree"
    assert unflow("漢 \n字", deletes_space=True) == "漢字"


def test_stuffed_spaces_are_taken_away() -> None:
    assert unflow(" >not a quote\n From here", deletes_space=False) == ">not a quote\nFrom here"


def test_quotes_of_other_depth_are_other_paragraphs() -> None:
    text = "> a \n> b\n>> c \nd"

    assert unflow(text, deletes_space=False) == "> a b\n>> c \nd"


def test_a_signature_is_never_joined() -> None:
    assert unflow("end \n-- \nAnn \nDoe", deletes_space=False) == "end \n-- \nAnn Doe"
