"""Copies, orders and numbers: which of the digits is the code."""

from mailonce.testing.hostile.hostile_mail import (
    CODE,
    FALSE_CODE,
    NOTHING,
    STOP,
    USE,
    USE_OR_NOTHING,
    WAIT,
    HostileMail,
    html_mail,
    parts_mail,
    plain_mail,
)

_YOURS = f"Your verification code is {CODE}.\r\n"
_ONCE = plain_mail(_YOURS)
# The headers of a part whose name is all that it has.
_NAMED_FILE = (
    f'text/plain\r\nContent-Disposition: attachment; filename="Your code is {FALSE_CODE}.txt"'
)
_OLD = "Date: Mon, 06 Jan 2020 10:00:00 +0000"

CODE_MAILS = (
    HostileMail(name="plain_code", about="there is one code", mails=(_ONCE,), safe=USE),
    HostileMail(
        name="same_mail_twice", about="a mail server sent it again", mails=(_ONCE, _ONCE), safe=USE
    ),
    HostileMail(
        name="same_code_again",
        about="a resend has the same code under a new Message-ID",
        mails=(_ONCE, plain_mail(_YOURS, number=2)),
        safe=USE,
    ),
    HostileMail(
        name="late_second_code",
        about="a newer code makes the older one void",
        mails=(
            plain_mail(f"Your verification code is {FALSE_CODE}."),
            plain_mail(_YOURS, number=2),
        ),
        safe=USE,
    ),
    HostileMail(
        name="same_message_id_other_code",
        about="the sender uses one Message-ID for two mails; the later counts",
        mails=(plain_mail(f"Your verification code is {FALSE_CODE}."), _ONCE),
        safe=USE,
    ),
    HostileMail(
        name="newsletter_after_the_code",
        about="a mail without a code takes nothing back",
        mails=(_ONCE, plain_mail("News of this week.", subject="News", number=2)),
        safe=USE,
    ),
    HostileMail(
        name="mail_of_an_earlier_attempt",
        about="it was written years before it was waited for",
        mails=(plain_mail(_YOURS, headers=[_OLD]),),
        safe=NOTHING,
    ),
    HostileMail(
        name="two_codes",
        about="two codes are equally good",
        mails=(plain_mail(f"Your code is {CODE}.\r\nYour code is {FALSE_CODE}.\r\n"),),
        safe=STOP,
    ),
    HostileMail(
        name="text_and_html_differ",
        about="the parts of one mail have different codes",
        mails=(html_mail(f"<p>Your code is {CODE}</p>", text=f"Your code is {FALSE_CODE}"),),
        safe=STOP,
    ),
    HostileMail(
        name="code_in_a_url",
        about="digits of a link are no code",
        mails=(plain_mail(f"{_YOURS}https://shop.example/login?code={FALSE_CODE}\r\n"),),
        safe=USE,
    ),
    HostileMail(
        name="only_a_url",
        about="digits of a link are no code, though there is no other",
        mails=(plain_mail(f"Sign in: https://shop.example/login?code={FALSE_CODE}\r\n"),),
        safe=WAIT,
    ),
    HostileMail(
        name="code_in_the_subject",
        about="the subject has it, the text does not",
        mails=(plain_mail("Use it within ten minutes.", subject=f"{CODE} is your code"),),
        safe=USE,
    ),
    HostileMail(
        name="code_in_html_alone",
        about="there is no plain text",
        mails=(html_mail(f"<p>Your verification code is</p><h1>{CODE}</h1>"),),
        safe=USE,
    ),
    HostileMail(
        name="code_with_a_space",
        about="people read it in two groups",
        mails=(plain_mail("Your verification code is 492 817."),),
        safe=USE,
    ),
    HostileMail(
        name="code_with_a_dash",
        about="people read it in two groups",
        mails=(plain_mail("Your verification code is 492-817."),),
        safe=USE,
    ),
    HostileMail(
        name="code_with_no_break_spaces",
        about="the groups are parted by U+00A0",
        mails=(plain_mail("Your verification code is 492\u00a0817."),),
        safe=USE,
    ),
    HostileMail(
        name="code_in_cells",
        about="each digit stands in an element of its own",
        mails=(
            html_mail(
                "<p>Your verification code:</p>"
                + "".join(f"<span style='padding:9px'>{digit}</span>" for digit in CODE)
            ),
        ),
        safe=USE,
    ),
    HostileMail(
        name="code_with_invisible_characters",
        about="zero-width characters stand between the digits",
        mails=(plain_mail("Your verification code is " + "\u200b".join(CODE) + "."),),
        safe=USE,
    ),
    HostileMail(
        name="numbers_all_around",
        about="a year, a price, a phone number and an order number are no codes",
        mails=(
            plain_mail(
                f"Order number 7719204 of 2026-01-06, total $1,299.00.\r\n{_YOURS}"
                "Questions? Call +1 555 010 4477. (c) 2026 Shop\r\n"
            ),
        ),
        safe=USE,
    ),
    HostileMail(
        name="order_number_alone",
        about="there is a number, but no code",
        mails=(plain_mail("Thank you for your order number 771920."),),
        safe=WAIT,
    ),
    HostileMail(
        name="code_bound_to_its_origin",
        about="the last line names the site that the code is for",
        mails=(
            plain_mail(f"{CODE} is your code, not {FALSE_CODE}.\r\n\r\n@shop.example #{CODE}\r\n"),
        ),
        safe=USE,
    ),
    HostileMail(
        name="code_in_a_quoted_reply",
        about="the code of the mail below was used before",
        mails=(
            plain_mail(f"{_YOURS}\r\nOn Monday, Shop wrote:\r\n> Your code is {FALSE_CODE}.\r\n"),
        ),
        safe=USE,
    ),
    HostileMail(
        name="code_in_a_file_name",
        about="a file is named after a code",
        mails=(
            parts_mail(
                [
                    ("text/plain", "See the file."),
                    (
                        _NAMED_FILE,
                        "Nothing here.",
                    ),
                ]
            ),
        ),
        safe=WAIT,
    ),
    HostileMail(
        name="code_in_an_attached_mail",
        about="somebody else's mail is attached",
        mails=(
            parts_mail(
                [
                    ("text/plain", "See the mail below."),
                    (
                        "message/rfc822",
                        f"From: x@attacker.example\r\n\r\nYour code is {FALSE_CODE}",
                    ),
                ]
            ),
        ),
        safe=WAIT,
    ),
    HostileMail(
        name="old_code_named_beside_the_new_one",
        about="the mail names the code that no longer counts",
        mails=(plain_mail(f"The code {FALSE_CODE} has expired. Your new code is {CODE}."),),
        safe=USE_OR_NOTHING,
    ),
)
