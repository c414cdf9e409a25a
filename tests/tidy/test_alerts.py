"""The alert rules that we ship speak of metrics that exist, and of all that call for a person."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = (ROOT / "deploy" / "alerts.yml").read_text()
TELEMETRY = (ROOT / "src" / "mailonce" / "telemetry.py").read_text()
CALLING = {
    "mailonce_alarm", "mailonce_breaker_open", "mailonce_dead_letters_open",
    "mailonce_oldest_due_seconds", "mailonce_ready", "mailonce_sends_need_person",
    "mailonce_sends_unknown",
}  # fmt: skip
# Those whose names begin as their door does.
DOORS = {"mailonce_door_refusals", "mailonce_unavailable", "mailonce_smtp_unavailable"}


def test_alerts_ask_for_metrics_that_exist() -> None:
    asked = set(re.findall(r"\bmailonce_\w+", "\n".join(re.findall(r"expr: (.*)", RULES))))
    known = set(re.findall(r"\bmailonce_\w+", TELEMETRY)) | DOORS

    assert {re.sub(r"_(total|bucket)$", "", name) for name in asked} <= known
    assert asked >= CALLING


def test_the_manual_says_what_to_do_about_each_alert() -> None:
    manual = (ROOT / "docs" / "operate.md").read_text()

    names = re.findall(r"- alert: (\w+)", RULES)

    assert names
    assert [name for name in names if f"`{name}`" not in manual] == []
