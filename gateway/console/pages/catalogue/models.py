"""Models by what they can do, as they are shown. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.catalog.tokenizers import ByteBound, TokenCounter
from gateway.console.formatting import count
from gateway.wire.bodies.supported import capabilities
from routing.types import Model, Task

TASKS: Mapping[Task, str] = {
    Task.GENERATE: "answers",
    Task.EMBED: "embeddings",
    Task.RERANK: "rankings",
    Task.MODERATE: "moderations",
    Task.TRANSCRIBE: "transcriptions",
    Task.SPEAK: "speech",
}


@dataclass(frozen=True, slots=True)
class ModelView:
    name: str
    made_for: str
    abilities: str
    context: str
    output: str
    pools: tuple[str, ...]


def model_views(
    models: Sequence[Model],
    counters: Mapping[str, TokenCounter],
    pools_of: Mapping[str, Sequence[str]],
) -> tuple[ModelView, ...]:
    """Those for one task stand together. `pools_of` names the pools that serve a model."""
    tasks = [*Task]
    ordered = sorted(models, key=lambda model: (tasks.index(model.task), model.name))
    return tuple(
        [
            _row(each, counters.get(each.name, ByteBound()), pools_of.get(each.name, ()))
            for each in ordered
        ]
    )


def _row(model: Model, tokens: TokenCounter, pools: Sequence[str]) -> ModelView:
    can = [name.replace("_", " ") for name, able in capabilities(model, tokens).items() if able]
    return ModelView(
        name=model.name,
        made_for=TASKS.get(model.task, model.task.value),
        abilities=", ".join(can),
        context=count(model.context_tokens),
        output=count(model.max_output_tokens),
        pools=tuple(sorted(pools)),
    )
