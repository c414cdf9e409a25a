"""The text of a mail that has HTML alone: what a reader without HTML sees, links written out."""

from mailonce.core.mail.visible_text import read_visible_text

_SHOWN = ("http://", "https://", "mailto:")


def text_of_html(html: str) -> str:
    """Write HTML as plain text; the address of a link follows its words."""
    visible = read_visible_text(html)
    parts: list[str] = []
    end = 0
    for anchor in sorted(visible.anchors, key=lambda one: one.end):
        address = anchor.href.strip()
        if anchor.end < end or not address.startswith(_SHOWN):
            continue
        parts.append(visible.text[end : anchor.end])
        end = anchor.end
        address = address.removeprefix("mailto:")
        if address != anchor.text.strip():
            parts.append(f" ({address})")
    return "".join((*parts, visible.text[end:])).strip() + "\n"
