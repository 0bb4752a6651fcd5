"""What a gateway has learned of pools, and how far its predictions were off."""

from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt

from gateway.api.schemas import Answer, Usd
from gateway.speeds.pool_speeds import Basis
from routing.economics.calibration import Verdict


class CalibrationTime(Answer):
    """One kind of time: `overhead_s` and what is reached of each ceiling. Without a roofline the
    ceilings are guesses, which may be passed."""

    taken: NonNegativeInt = Field(description="observations that it was learned from")
    refused: dict[Verdict, int] = Field(description="observations that cannot be, by reason")
    overhead_s: float
    efficiencies: list[float]
    error: float | None = Field(
        description="median of how far the last 256 predictions were off, as a share of what came;"
        " each was made before; null: none was compared yet"
    )
    inside: float | None = Field(
        description="share of the same that came inside of the 90 % interval"
    )


class CalibrationAnswer(Answer):
    """What this gateway knows of one pool. Pools of one variant on the same hardware share it."""

    object: Literal["calibration"] = "calibration"
    pool: str = Field(validation_alias=AliasPath("pool", "name"))
    model: str = Field(validation_alias=AliasPath("pool", "model"))
    variant: str = Field(validation_alias=AliasPath("pool", "variant"))
    hardware: str | None = Field(validation_alias=AliasPath("pool", "hardware"))
    gpus: int = Field(validation_alias=AliasPath("pool", "gpus"))
    target: str = Field(description="what shares it")
    basis: Basis = Field(description="what speeds and costs are computed from")
    first_token: CalibrationTime | None = Field(
        description="time to the first token, over the prompt and the step that runs"
    )
    step: CalibrationTime | None = Field(description="time of a token after the first")
    busy: CalibrationTime | None = Field(
        description="a replica's own time for a call, over its prompt and its answer"
    )
    cost_input_usd_per_mtok: Usd = Field(
        validation_alias="cost_input_nanousd_per_mtok",
        description="decimal USD: what a million prompt tokens cost us there",
    )
    cost_output_usd_per_mtok: Usd = Field(
        validation_alias="cost_output_nanousd_per_mtok",
        description="decimal USD: what a million tokens of answers cost us there",
    )
    calls_per_start: float | None = Field(
        description="calls that share the cost of a start; null where nothing is to be started"
    )
    losses_per_hour: float | None = Field(
        description="how often a spot replica is lost; null for what is not spot"
    )
    kept_share: float | None = Field(
        description="of the tokens that a server outside was sent before, what it still has"
        " in its cache; null for own workers"
    )
    cached_share: float | None = Field(
        description="of all other tokens of prompts, what it has in its cache all the same"
    )
