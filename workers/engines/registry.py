"""The engines that a deployment can name. A factory imports its engine only when it is called. So
naming one costs nothing, and an engine's libraries need to exist only where it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.engines.base import Engine, EngineSettings
from workers.engines.names import SIMULATED, VLLM


def continuous(settings: EngineSettings) -> Engine:
    from workers.engines.continuous.engine import ContinuousEngine

    return ContinuousEngine(settings)


def vllm(settings: EngineSettings) -> Engine:
    from workers.engines.vllm.engine import VllmEngine

    return VllmEngine(settings)


def simulated(settings: EngineSettings) -> Engine:
    from workers.engines.simulated.engine import SimulatedEngine

    return SimulatedEngine(settings)


ENGINES: Mapping[str, Callable[[EngineSettings], Engine]] = {
    "continuous": continuous,
    VLLM: vllm,
    SIMULATED: simulated,
}


def engine_named(name: str, settings: EngineSettings) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"no engine named {name!r}; there are: {', '.join(sorted(ENGINES))}")
    return ENGINES[name](settings)
