"""The words of a mail: a subject and something to read, its own or those of a template."""


def trouble_of_words(
    *,
    subject: str | None,
    text: str | None,
    html: str | None,
    template: str | None,
    has_files: bool,
) -> str | None:
    """Say what keeps words from being sent; None where nothing does.

    Text without a letter will do beside a file, which is what the mail is sent for.
    """
    if template is not None:
        own = {"subject": subject, "text": text, "html": html}
        beside = [name for name, value in own.items() if value is not None]
        if beside:
            return f"`{beside[0]}` stands beside `template`, which has its own; leave one out"
        return None
    if text is None and html is None:
        return "the mail is empty; give `text`, `html` or `template`"
    if not (has_files or (text or "").strip() or (html or "").strip()):
        return "the mail is empty: there is nothing in its `text` or `html`; write something"
    if subject is None:
        return "`subject` is missing; give one, or a `template`"
    return None if subject.strip() else "`subject` is empty; give one"
