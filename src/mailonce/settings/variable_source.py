"""The settings that variables give, for pydantic."""

from typing import Any, get_args

from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource


class VariableSource(EnvSettingsSource):
    """Reads JSON where a setting may be a list, and a text where it may be a text."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Read a value; a secret of digits alone is a text, though JSON has a number there."""
        decoded = super().decode_complex_value(field_name, field, value)
        is_text = not isinstance(decoded, list | dict | str) and str in get_args(field.annotation)
        return value if is_text else decoded
