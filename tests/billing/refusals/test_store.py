"""The list of refused calls: pages, filters, and its end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.db.engine import Store
from billing.queries import newest_refusals
from billing.refusals import store as refusals
from billing.refusals.refusal import Refusal, UnreadableRefusals, decode, encode
from tests.billing.plans import SORTED, accesses

BASE: dict[str, Any] = {
    "org": "org_1",
    "project": "proj_1",
    "key": "key_1",
    "model": "tale",
    "tier": "default",
    "rule": "default",
    "policy_revision": 1,
    "reason": "limit",
    "error_code": "rate_limit_exceeded",
    "message": "Rate limit reached.",
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


def refusal(rid: str, at_us: int = 5, **changes: Any) -> Refusal:
    return Refusal(**BASE | {"rid": rid, "at_us": at_us, "until_us": at_us} | changes)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def write(store: Store, *rows: Refusal) -> None:
    with store.write() as conn:
        refusals.add(conn, rows)


def retire(store: Store, before_us: int, rows_max: int) -> int:
    with store.write() as conn:
        return refusals.retire(conn, before_us, rows_max)


def rids(store: Store, limit: int = 99, **equals: str) -> list[str]:
    return [row.rid for row in newest_refusals(store, limit, equals)]


@given(st.lists(st.builds(refusal, TEXT, st.integers(0, 2**62), message=TEXT), max_size=5))
def test_refusals_that_are_read_are_those_that_were_written(rows: list[Refusal]) -> None:
    assert decode(encode(rows)) == rows


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91\x91\x01"])
def test_other_bytes_are_no_refusals(body: bytes) -> None:
    with pytest.raises(UnreadableRefusals):
        decode(body)


def test_pages_hold_every_row_once_the_newest_first(store: Store) -> None:
    rows = [refusal(f"req_{n}", n // 2) for n in range(7)]
    write(store, *rows)
    write(store, *rows[:3])
    read: list[Refusal] = []
    before = None
    while page := newest_refusals(store, 3, {}, before=before):
        read += page
        before = page[-1].at_us, page[-1].rid
    assert read == sorted(rows, key=lambda row: (row.at_us, row.rid), reverse=True)


def test_rows_are_found_by_tenant_reason_and_rule(store: Store) -> None:
    write(
        store,
        refusal("req_1"),
        refusal("req_2", org="org_2", reason="money"),
        refusal("req_3", rule="night", is_canary=True),
    )
    assert rids(store) == ["req_3", "req_2", "req_1"]
    assert rids(store, org="org_2") == rids(store, reason="money") == ["req_2"]
    assert rids(store, rule="night", org="org_1") == ["req_3"]
    assert rids(store, rule="night", org="org_2") == []


@pytest.mark.parametrize("equals", [{}, {"org": "org_1"}, {"org": "org_1", "rule": "r"}])
def test_a_page_is_led_by_an_index_in_its_order(store: Store, equals: dict[str, str]) -> None:
    write(store, *[refusal(f"req_{n}", n, org=f"org_{n % 9}") for n in range(300)])
    looks = accesses(store, lambda: newest_refusals(store, 5, equals, before=(200, "req_200")))
    assert [look.table for look in looks] == ["refusal"], "and nothing is sorted"
    assert looks[0].columns >= {"at_us"} | ({"org"} & set(equals))
    assert SORTED not in {look.table for look in looks}


def test_sides_of_a_canary_are_counted_by_calls(store: Store) -> None:
    write(
        store,
        refusal("req_1", is_canary=True, calls=7),
        refusal("req_2", is_canary=True),
        refusal("req_3", is_canary=False, policy_revision=2),
        refusal("req_4", is_canary=False),
        refusal("req_5"),
        refusal("req_6", at_us=10, is_canary=False),
        refusal("req_7", is_canary=True, reason="money"),
    )
    with store.read() as conn:
        counted = refusals.by_side(conn, 1, 5, 10, ["limit"])
    assert sorted(counted) == [("default", False, 1), ("default", True, 8)]


def test_old_rows_and_those_that_are_too_many_go(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, *[refusal(f"req_{n}", n) for n in range(9)])
    assert retire(store, before_us=2, rows_max=99) == 2
    assert retire(store, before_us=2, rows_max=3) == 4
    assert rids(store) == ["req_8", "req_7", "req_6"]
    monkeypatch.setattr(refusals, "RETIRED_MAX", 1)
    assert [retire(store, 99, 99) for _ in range(4)] == [1, 1, 1, 0]
