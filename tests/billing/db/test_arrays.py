"""What is written as a PostgreSQL array is read as it was."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Connection, Text, literal, select

from billing.db.arrays import array_text
from billing.db.engine import Store, look_up_by_index
from billing.db.in_list import in_list

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=9)
AWKWARD = st.sampled_from(["", "NULL", "null", '"', "\\", '\\"', "{}", "a,b", " a ", "'", "%s"])
WHOLE = st.integers(-(2**63), 2**63 - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.none() | TEXT | AWKWARD),
    numbers=st.lists(st.none() | WHOLE),
    flags=st.lists(st.none() | st.booleans()),
)
def test_array_is_read_as_it_was_written(
    postgres_store: Store,
    texts: list[str | None],
    numbers: list[int | None],
    flags: list[bool | None],
) -> None:
    with postgres_store.read() as conn:
        read = conn.exec_driver_sql(
            "SELECT %s::VARCHAR[], %s::BIGINT[], %s::BOOLEAN[]",
            (array_text(texts), array_text(numbers), array_text(flags)),
        ).one()
    assert tuple(read) == (texts, numbers, flags)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=TEXT | AWKWARD | WHOLE, others=st.lists(TEXT | AWKWARD), numbers=st.lists(WHOLE))
def test_a_value_is_among_others_if_it_is_one_of_them(
    either_store: Store, one: str | int, others: list[str], numbers: list[int]
) -> None:
    values, kind = (numbers, BigInteger) if isinstance(one, int) else (others, Text)
    with either_store.read() as conn:
        for asked in (values, [*values, one]):
            found = conn.execute(select(in_list(conn, literal(one, kind), asked))).scalar_one()
            assert bool(found) == (one in asked)


def test_young_table_is_looked_into_by_index_for_as_long_as_a_transaction_asks_for_keys(
    postgres_store: Store,
) -> None:
    def plan(conn: Connection) -> str:
        keys = array_text(f"r{n}" for n in range(999))
        asked = "EXPLAIN SELECT * FROM usage_event WHERE rid = ANY (%s::VARCHAR[])"
        return "".join(conn.exec_driver_sql(asked, (keys,)).scalars())

    with postgres_store.write() as conn:
        assert "Seq Scan" in plan(conn), "else there would be nothing to do"
        look_up_by_index(conn)
        assert "Seq Scan" not in plan(conn) and "usage_event_pkey" in plan(conn)
    with postgres_store.write() as conn:
        assert "Seq Scan" in plan(conn)
