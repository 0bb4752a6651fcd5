"""The chat messages that the items of an input become, one after another."""

from typing import Any

from gateway.wire.responses.tools import Toolbox

Json = dict[str, Any]


class Translation:
    """Chat messages as far as they have come, and where each of their fields stood."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.messages: list[Json] = []
        self.origins: dict[str, str] = {}
        self.toolbox = toolbox
        self._calls_open = False
        self._thought = ""
        self._thought_at: str | None = None
        self._unseen: list[tuple[Json, str]] = []

    def think(self, text: str, origin: str) -> None:
        """Reasoning belongs to what the assistant says next."""
        self._calls_open = False
        if text:
            self._thought += text
            self._thought_at = origin

    def end_thought(self) -> None:
        """Reasoning that the assistant said nothing after is a turn of its own."""
        if self._thought_at is not None:
            self.add({"role": "assistant", "content": ""}, self._thought_at)

    def add(self, message: Json, origin: str) -> None:
        if message["role"] != "tool":
            self.see_outputs()
        if message["role"] != "assistant":
            self.end_thought()
        elif self._thought:
            message = message | {"reasoning_content": self._thought}
            self._thought, self._thought_at = "", None
        self.origins[f"messages[{len(self.messages)}]"] = origin
        self.messages.append(message)
        self._calls_open = message["role"] == "assistant"

    def add_call(self, call: Json, origin: str) -> None:
        """To what the assistant has just said, since one turn may hold text and several calls."""
        if not self._calls_open:
            self.add({"role": "assistant", "content": None}, origin)
        calls = self.messages[-1].setdefault("tool_calls", [])
        every = f"messages[{len(self.messages) - 1}].tool_calls"
        where = f"{every}[{len(calls)}]"
        self.origins.setdefault(every, origin)
        self.origins |= {where: origin, f"{where}.function": origin}
        self.origins[f"{where}.id"] = f"{origin}.call_id"
        calls.append(call)

    def add_message(self, message: Json, origin: str) -> None:
        where = f"messages[{len(self.messages)}]"
        self.add(message, origin)
        parts = message["content"] if isinstance(message["content"], list) else ()
        for index, each in enumerate(parts):
            if each["type"] == "image_url":
                own = f"{origin}.content[{index}]"
                inner = f"{where}.content[{index}].image_url"
                self.origins |= {inner: own, f"{inner}.url": f"{own}.image_url"}

    def see_outputs(self) -> None:
        """The images of outputs follow them as the user's."""
        unseen, self._unseen = self._unseen, []
        if not unseen:
            return
        where = f"messages[{len(self.messages)}]"
        self.add({"role": "user", "content": [image for image, _ in unseen]}, unseen[0][1])
        for index, (_, own) in enumerate(unseen):
            place = f"{where}.content[{index}]"
            inner = f"{place}.image_url"
            self.origins |= {place: own, inner: own, f"{inner}.url": f"{own}.image_url"}

    def add_output(self, message: Json, images: list[tuple[Json, str]], origin: str) -> None:
        where = f"messages[{len(self.messages)}]"
        self.add(message, origin)
        self.origins |= {
            f"{where}.tool_call_id": f"{origin}.call_id",
            f"{where}.role": f"{origin}.call_id",
            f"{where}.content": f"{origin}.output",
        }
        self._unseen += images
