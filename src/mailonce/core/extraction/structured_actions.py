"""Actions that a mail declares as structured data (JSON-LD), as Gmail's "go to" buttons need them.

They name the link that matters in a field of its own. They are believed no more than any other
link: where they lead is judged all the same, and they are never invoked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from mailonce.core.mail.html_tokens import HtmlTokens, StartTag, TextRun
from mailonce.core.mail.visible_text import HTML_CHARS_MAX

SCRIPTS_MAX = 10
SCRIPT_CHARS_MAX = 50_000
# Values that are looked at in one script.
NODES_MAX = 1_000
ACTIONS_MAX = 20
TOKENS_MAX = 200_000

# Types of schema.org that ask for one click; a view is only a place to go.
_CONFIRMING = frozenset({"ConfirmAction", "SaveAction", "ActivateAction", "AcceptAction"})
_VIEWING = frozenset({"ViewAction", "TrackAction"})


@dataclass(frozen=True, slots=True)
class StructuredAction:
    url: str
    name: str
    is_confirming: bool


def find_structured_actions(html: str) -> tuple[StructuredAction, ...]:
    """Give the actions that a mail declares, in their order."""
    if "ld+json" not in html.lower():
        return ()
    actions: list[StructuredAction] = []
    for script in _scripts(html[:HTML_CHARS_MAX]):
        try:
            value = orjson.loads(script)
        except orjson.JSONDecodeError:
            continue
        actions += _actions(value)
    return tuple(actions[:ACTIONS_MAX])


def _scripts(html: str) -> Iterator[str]:
    is_data = False
    scripts = 0
    for number, token in enumerate(HtmlTokens(html)):
        if number >= TOKENS_MAX or scripts >= SCRIPTS_MAX:
            return
        if isinstance(token, TextRun) and is_data and len(token.text) <= SCRIPT_CHARS_MAX:
            scripts += 1
            # Half of a surrogate pair cannot be encoded, and is no address either.
            yield token.text.encode("utf-8", "replace").decode()
        is_data = (
            isinstance(token, StartTag)
            and token.name == "script"
            and token.attributes.get("type", "").strip().lower() == "application/ld+json"
        )


def _actions(value: Any) -> Iterator[StructuredAction]:
    waiting = [value]
    nodes = 0
    while waiting and nodes < NODES_MAX:
        nodes += 1
        node = waiting.pop(0)
        if isinstance(node, list):
            waiting += node[:NODES_MAX]
        elif isinstance(node, dict):
            action = _action(node)
            if action is not None:
                yield action
            waiting += [node[key] for key in ("potentialAction", "@graph", "action") if key in node]


def _action(node: dict[str, Any]) -> StructuredAction | None:
    kind = node.get("@type")
    if not isinstance(kind, str) or kind not in _CONFIRMING | _VIEWING:
        return None
    for holder in (node.get("handler"), node.get("target"), node):
        url = holder
        if isinstance(holder, dict):
            url = holder.get("url") or holder.get("urlTemplate")
        if isinstance(url, str):
            name = node.get("name")
            return StructuredAction(
                url, name[:200] if isinstance(name, str) else "", kind in _CONFIRMING
            )
    return None
