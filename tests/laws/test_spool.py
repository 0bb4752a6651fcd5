"""Laws of the spool: a crash loses at most the torn last line, and replaying twice is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from billing.spool import segments
from billing.spool.segments import read_lines
from billing.spool.spool import Spool, replay
from billing.types import encode
from tests.billing.calls import checkpoint, opened_call, settled_call

GATEWAY = "gw-1"
LINES = st.lists(
    st.tuples(st.sampled_from(["opened", "checkpoint", "closed"]), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


def write(root: Path, lines: list[tuple[str, int]]) -> None:
    spool = Spool(root, GATEWAY)
    for position, (kind, number) in enumerate(lines):
        call = opened_call(f"req_{number}", tier="grüß\n\u2028")
        match kind:
            case "opened":
                spool.opened(call)
            case "checkpoint":
                spool.checkpoint(call.rid, checkpoint(position))
            case "closed":
                spool.closed(settled_call(call, position))
    spool.close()


@settings(max_examples=60, deadline=None)
@given(LINES, st.data())
def test_whatever_byte_a_crash_cuts_at_only_the_torn_line_is_lost(
    lines: list[tuple[str, int]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, lines)
        [segment] = segments.segments(root, GATEWAY)
        whole = segment.path.read_bytes()
        before = list(read_lines(segment))
        assert [(line.k.value, line.r) for line in before] == [
            (kind, f"req_{number}") for kind, number in lines
        ]
        cut = data.draw(st.integers(0, len(whole)), label="cut")
        segment.path.write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n")
        survived = list(read_lines(segment))
        assert survived[:complete] == before[:complete]
        assert len(survived) - complete in (0, 1)
        assert survived == before[: len(survived)]
        write(root, [("opened", 9)])  # the restarted gateway goes on in a segment of its own
        assert replay(root, GATEWAY)[-1].rid == "req_9"


@settings(max_examples=30, deadline=None)
@given(LINES)
def test_replaying_what_was_replayed_gives_the_same(lines: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "one", lines)
        write(Path(folder) / "two", lines + lines)
        once, twice = (replay(Path(folder) / name, GATEWAY) for name in ("one", "two"))
        assert {call.rid for call in once} == {call.rid for call in twice}
        assert replay(Path(folder) / "one", GATEWAY) == once
        for call in once:
            assert call.opened is None or encode(call.opened)
