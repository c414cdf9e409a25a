"""What all parts of the settings share."""

from pydantic import BaseModel, ConfigDict

YEARS_S = 10 * 366 * 86_400
ONE_OR_MORE = "one value, or a list of values while rotating"


class SettingsPart(BaseModel):
    """A table of the settings: unknown names are refused, and nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
