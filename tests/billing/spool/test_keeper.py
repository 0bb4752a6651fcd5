"""Spool segments: confirmed once the ledger has every call in them, removed after a while."""

from __future__ import annotations

import time
from pathlib import Path

from billing.db.engine import Store
from billing.settings import LedgerSettings
from billing.spool import segments
from billing.spool import store as spools
from billing.spool.keeper import SpoolKeeper
from billing.spool.spool import Spool
from billing.verify import verify_all
from tests.billing.calls import opened_call
from tests.billing.invoices.test_invoices import IN_OCTOBER_US, book, call


def keeper(root: Path, store: Store, keep_days: float = 7.0) -> SpoolKeeper:
    return SpoolKeeper(root, store, LedgerSettings(spool_keep_days=keep_days), now=time.time)


def spool_of_two_segments(root: Path, store: Store) -> None:
    for rid in ("req_1", "req_2"):
        spool = Spool(root, "gw-1")  # every life of a gateway begins a segment
        spool.opened(opened_call(rid, admitted_us=IN_OCTOBER_US))
        spool.closed(call(store, rid, IN_OCTOBER_US))
        spool.close()


async def test_a_finished_segment_is_confirmed_when_its_calls_are_booked(
    store: Store, tmp_path: Path
) -> None:
    spool_of_two_segments(tmp_path, store)
    await keeper(tmp_path, store).turn()
    first, last = segments.segments(tmp_path, "gw-1")
    assert not segments.is_done(first)
    book(store, call(store, "req_1", IN_OCTOBER_US), call(store, "req_2", IN_OCTOBER_US))
    await keeper(tmp_path, store).turn()
    assert segments.is_done(first) and not segments.is_done(last)
    with store.read() as conn:
        (row,) = spools.confirmed(conn).values()
    assert (row["opened_count"], row["closed_count"]) == (1, 1)
    report = await verify_all(store, now_us=IN_OCTOBER_US, spool_root=tmp_path)
    assert report.ok


async def test_a_confirmed_segment_that_changed_is_a_break(store: Store, tmp_path: Path) -> None:
    spool_of_two_segments(tmp_path, store)
    book(store, call(store, "req_1", IN_OCTOBER_US), call(store, "req_2", IN_OCTOBER_US))
    await keeper(tmp_path, store).turn()
    first = segments.segments(tmp_path, "gw-1")[0]
    first.path.write_bytes(first.path.read_bytes() + b"x")
    report = await verify_all(store, now_us=IN_OCTOBER_US, spool_root=tmp_path)
    assert [c.name for c in report.checks if c.outcome == "broken"] == ["spools_unchanged"]


async def test_an_old_confirmed_segment_is_removed(store: Store, tmp_path: Path) -> None:
    spool_of_two_segments(tmp_path, store)
    book(store, call(store, "req_1", IN_OCTOBER_US), call(store, "req_2", IN_OCTOBER_US))
    await keeper(tmp_path, store, keep_days=0.0).turn()
    assert [segment.seq for segment in segments.segments(tmp_path, "gw-1")] == [2]
