"""Calls of tools as they leave, whatever pieces a server sent them in. Clients put them together by
number and join ids and names like any other text, so that of each call there is one piece a chunk,
its id and its name are in the first and nowhere else, and calls are numbered from 0 as they begin.
"""

from collections.abc import Iterable

from gateway.call.frame import Choice, FunctionPiece, ToolCallPiece


class CallPieces:
    """Of one choice. A call whose name has not come waits for it, until the choice ends."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """Of the calls that have begun, by the server's own."""
        self._nameless: tuple[ToolCallPiece, ...] = ()

    def next(self, choice: Choice) -> list[ToolCallPiece]:
        """What the choice says of its calls, in the order in which it names them."""
        new = choice.tool_calls
        if not new and not self._nameless:
            return []
        is_last = choice.finish_reason is not None
        pieces, nameless = [], []
        for piece in merged((*self._nameless, *new)):
            number = self._numbers.get(piece.index)
            if number is not None:
                if piece.arguments:
                    pieces.append(_piece(number, arguments=piece.arguments))
            elif piece.name or is_last:
                number = self._numbers[piece.index] = len(self._numbers)
                pieces.append(_piece(number, piece.id, piece.name, piece.arguments))
            else:
                nameless.append(piece)
        self._nameless = tuple(nameless)
        return pieces


def merged(pieces: Iterable[ToolCallPiece]) -> list[ToolCallPiece]:
    """One piece of each call: the first id and name that were said, and all arguments."""
    calls: dict[int, ToolCallPiece] = {}
    for piece in pieces:
        before = calls.get(piece.index)
        calls[piece.index] = piece if before is None else _joined(before, piece)
    return list(calls.values())


def _joined(first: ToolCallPiece, second: ToolCallPiece) -> ToolCallPiece:
    name, arguments = first.name or second.name, first.arguments + second.arguments
    return _piece(first.index, first.id or second.id, name, arguments)


def _piece(
    index: int, call_id: str | None = None, name: str | None = None, arguments: str = ""
) -> ToolCallPiece:
    return ToolCallPiece(index, call_id, FunctionPiece(name, arguments))
