"""Names of records in findings and in commands."""

from mailonce.core.health.record_name import RecordName


def test_a_record_outside_the_default_workspace_is_named_with_its_workspace() -> None:
    ours, theirs = RecordName("pm"), RecordName("pm", "acme")

    assert (str(ours), ours.in_command) == ("pm", "pm")
    assert (str(theirs), theirs.in_command) == ("pm (workspace acme)", "pm --workspace acme")
