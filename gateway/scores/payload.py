"""What calls have in common that a server outside scores: one answer, of which none goes on."""

from typing import Any, ClassVar


class ScoredPayload:
    __slots__ = ()
    choices: ClassVar[int] = 1
    truncate_prompt_tokens: ClassVar[None] = None

    def question(self) -> str:
        return ""

    def prefix(self) -> bytes:
        return b""

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        return self.outside_body(output_tokens_max)

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        raise NotImplementedError
