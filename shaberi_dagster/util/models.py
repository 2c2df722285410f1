"""The base of models that are frozen and refuse fields that they do not know."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: it cannot be changed, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
