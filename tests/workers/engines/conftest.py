from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from workers.engines.base import EngineSettings, Frame, GenerationRequest
from workers.engines.chat import TemplateChat
from workers.engines.continuous.batch import Batch
from workers.engines.continuous.checkpoint import Checkpoint, open_checkpoint
from workers.engines.continuous.sequence import RunningSequence
from workers.engines.guides import Compiled

MODEL_PATH = Path(__file__).parents[3] / "models" / "sluice-small"

Ask = Callable[..., GenerationRequest]


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    torch.set_num_threads(1)
    return open_checkpoint(MODEL_PATH)


@pytest.fixture(scope="session")
def chat() -> TemplateChat:
    return TemplateChat(MODEL_PATH)


@pytest.fixture(scope="session")
def ask(chat: TemplateChat) -> Ask:
    """A greedy request of the given words, that does not end by itself."""

    def request(text: str, **fields: object) -> GenerationRequest:
        ids = chat.prompt_token_ids([{"role": "user", "content": text}])
        base = GenerationRequest(text, ids, seed=1, tokens_max=24, temperature=0, ignore_eos=True)
        return replace(base, **fields)

    return request


class Bench:
    """A batch stepped by hand, and what its sequences were given."""

    def __init__(self, checkpoint: Checkpoint, **settings: int) -> None:
        self.batch = Batch(checkpoint, EngineSettings(MODEL_PATH, **settings))
        self.frames: dict[str, list[Frame]] = {}
        self._checkpoint = checkpoint

    def add(self, request: GenerationRequest) -> RunningSequence:
        form = request.constraint
        sequence = RunningSequence(
            request,
            context_tokens=self.batch.context_tokens,
            eos_token_ids=self._checkpoint.eos_token_ids,
            decode=self._checkpoint.decode,
            raw=self._checkpoint.raw,
            matcher=form.matcher() if isinstance(form, Compiled) else None,
        )
        self.frames[request.request_id] = []
        self.batch.add(sequence)
        return sequence

    def step(self) -> None:
        for sequence in self.batch.step():
            self.frames[sequence.request.request_id].append(sequence.frame())

    def run(self, *requests: GenerationRequest) -> None:
        for request in requests:
            self.add(request)
        while not self.batch.idle:
            self.step()

    def tokens(self, request_id: str) -> list[int]:
        return [token for frame in self.frames[request_id] for token in frame.token_ids]

    def text(self, request_id: str) -> str:
        return "".join(frame.text for frame in self.frames[request_id])


@pytest.fixture
def bench(checkpoint: Checkpoint) -> Callable[..., Bench]:
    return lambda **settings: Bench(checkpoint, **settings)
