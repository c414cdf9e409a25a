"""Clean the names that senders give to attachments: a name is never a path, and hides nothing."""

import re

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem
from mailonce.core.mail.unicode_form import unicode_form

NAME_CHARS_MAX = 200

# Controls, separators, marks that turn the direction of text, and characters that cannot be seen.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_FORBIDDEN = re.compile(r"[<>:\"|?*]")
# What Windows takes for a device, whatever extension follows.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)


def clean_file_name(name: str, budget: DigestBudget) -> str | None:
    """Give the last part of a path, without what hides or misleads; None where nothing is left."""
    cleaned = unicode_form("NFC", name[: 4 * NAME_CHARS_MAX])
    last = re.split(r"[/\\]", cleaned.rstrip("/\\ "))[-1]
    plain = _FORBIDDEN.sub("_", _HIDDEN.sub("", last)).strip(" .") if last.strip(".") else ""
    if _DEVICE.match(plain):
        plain = f"_{plain}"
    if plain != cleaned.strip(" "):
        budget.note(MailProblem.UNSAFE_FILE_NAME)
    return _shortened(plain) or None


def _shortened(name: str) -> str:
    """Cut a long name in front of its extension."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    base, dot, extension = name.rpartition(".")
    if not dot or len(extension) > 20:
        return name[:NAME_CHARS_MAX]
    return f"{base[: NAME_CHARS_MAX - len(extension) - 1]}.{extension}"
