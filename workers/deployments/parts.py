"""The parts of a worker, by the name of its engine. Tokenizers are loaded here. Models and their
libraries are loaded when the engine starts."""

from __future__ import annotations

from dataclasses import dataclass

from workers.deployments.embedding import EmbeddingDoors
from workers.deployments.exchange import Doors
from workers.deployments.generating import CHOICES_MAX, GeneratingDoors
from workers.engines.base import EngineLife, EngineSettings
from workers.engines.chat import TemplateChat
from workers.engines.embedding.engine import EncoderEngine
from workers.engines.names import EMBEDDING
from workers.engines.registry import engine_named
from workers.engines.text import CheckpointText


@dataclass(frozen=True, slots=True)
class Parts:
    engine: EngineLife
    doors: Doors


def parts_named(name: str, settings: EngineSettings) -> Parts:
    """The parts for an engine. Raises ValueError for a name that no engine has."""
    return _embedding(settings) if name == EMBEDDING else _generating(name, settings)


def _embedding(settings: EngineSettings) -> Parts:
    engine = EncoderEngine(settings)
    return Parts(engine, EmbeddingDoors(engine, text=CheckpointText(settings.model_path)).routes)


def _generating(name: str, settings: EngineSettings) -> Parts:
    engine = engine_named(name, settings)
    doors = GeneratingDoors(
        engine,
        chat=TemplateChat(settings.model_path),
        text=CheckpointText(settings.model_path),
        # More than the engine can ever hold would be called overload for ever.
        choices_max=min(CHOICES_MAX, settings.slots + settings.queue_max),
    )
    return Parts(engine, doors.routes)
