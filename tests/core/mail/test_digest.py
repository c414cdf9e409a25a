from mailonce.core.mail.digest import digest
from mailonce.core.mail.incoming import AddressField, FieldAttachment, FieldsContent, MailEnvelope
from mailonce.core.mail.mail_kind import MailKind
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import ENVELOPE, make_mail, read


def test_a_plain_mail_is_read() -> None:
    one = read(make_mail("Hi Bob,\r\n\r\nsee you.\r\n"))

    assert one.from_ == (AddressField("ann@example.com", "Ann"),)
    assert one.to == (AddressField("bob@in.example.net", "Bob"),)
    assert (one.subject, one.message_id) == ("Hello", "one@example.com")
    assert (one.text, one.text_origin, one.html) == ("Hi Bob,\n\nsee you.\n", "part", None)
    assert one.kind is MailKind.MAIL
    assert one.problems == ()


def test_nothing_is_still_a_digest() -> None:
    one = read(b"")

    assert one.problems[0] is MailProblem.NOT_A_MAIL
    assert one.text == ""


def test_a_mail_with_old_line_ends_is_read() -> None:
    one = read(make_mail("a\nb\n").replace(b"\r\n", b"\r"))

    assert one.text == "a\nb\n"
    assert one.problems == (MailProblem.BAD_LINE_ENDINGS,)


def test_fields_of_a_provider_are_read() -> None:
    one = digest(
        FieldsContent(
            headers=(("In-Reply-To", "<0@x>"), ("X", "y"), ("Subject", "other")),
            message_id="<1@x>",
            from_=(AddressField("ann@example.com", "Ann\r\nDoe"),),
            to=(AddressField("bob@in.example.net"),),
            subject="Hi",
            date="Mon, 5 Jan 2026 10:00:00 +0000",
            text="Yes.\n\nOn 1 Jan 2026, Bob wrote:\n> No?\n",
            html="<p>Yes.",
            attachments=(
                FieldAttachment(name="../a.pdf", type="application/pdf; x=y", content=b"%PDF-"),
            ),
        ),
        ENVELOPE,
    )

    assert (one.message_id, one.in_reply_to, one.subject) == ("1@x", ("0@x",), "Hi")
    assert one.from_ == (AddressField("ann@example.com", "Ann Doe"),)
    assert (one.text_origin, one.reply_text) == ("part", "Yes.")
    assert (one.attachments[0].name, one.attachments[0].type) == ("a.pdf", "application/pdf")
    assert one.problems == (MailProblem.UNSAFE_FILE_NAME,)


def test_a_provider_may_have_made_the_text_and_cut_the_reply() -> None:
    one = digest(
        FieldsContent(html="<p>Yes", text="Yes", is_text_derived=True, reply_text="cut"), ENVELOPE
    )

    assert (one.text, one.text_origin, one.reply_text) == ("Yes", "provider", "cut")


def test_html_of_a_provider_has_the_line_ends_of_a_mail_that_came_as_bytes() -> None:
    one = digest(FieldsContent(html="<p>Yes\r\n<p>No\r\n"), ENVELOPE)

    assert one.html == "<p>Yes\n<p>No\n"


def test_an_attachment_that_could_not_be_had_is_named_and_the_mail_says_so() -> None:
    file = FieldAttachment(name="a.pdf", type="application/pdf", content=b"", is_missing=True)

    one = digest(FieldsContent(text="Hi", attachments=(file,)), ENVELOPE)

    assert one.attachments[0].name == "a.pdf"
    assert MailProblem.MISSING_ATTACHMENT in one.problems


def test_fields_without_text_take_it_from_the_html() -> None:
    one = digest(FieldsContent(html='<p>Yes<b style="display:none">no</b>'), ENVELOPE)

    assert (one.text, one.text_origin) == ("Yes", "html")


def test_an_automatic_reply_names_what_it_answers() -> None:
    raw = make_mail("Away.\n", "Auto-Submitted: auto-replied", "In-Reply-To: <0@x.example>")

    one = read(raw, MailEnvelope(mail_from="", recipients=("b@x.example",), origin="smtp"))

    assert one.kind is MailKind.AUTO_REPLY
    assert one.about_message_id == "0@x.example"
