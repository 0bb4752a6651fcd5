"""What calls have in common that a server outside answers whole: no answer goes on elsewhere."""

from typing import Any, ClassVar


class ScoredPayload:
    __slots__ = ()
    truncate_prompt_tokens: ClassVar[int | None] = None

    @property
    def choices(self) -> int:
        return 1

    def question(self) -> str:
        return ""

    def prefix(self) -> bytes:
        return b""

    @property
    def work_s(self) -> float:
        """How much longer than others a server may take until it answers."""
        return 0.0

    def unsaid_tokens(self, held: int, *, by_unit: bool) -> int:
        """What is counted of the prompt where a server says nothing of it: of `held` tokens, and of
        a model that is sold by units too, or not."""
        return held

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        return self.outside_body(output_tokens_max)

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        raise NotImplementedError
