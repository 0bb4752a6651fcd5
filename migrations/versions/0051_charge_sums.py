"""Sums of charges by month, and cuts of the ledger in the place of a row per transfer.

Sums are filled from the transfers there are, with the prices of their versions. A final invoice
gets the cut that has its transfers; its lines stay as they are. Drafts go: the next run makes them
anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

KEY = (
    *("org", "service_start_us", "kind", "project", "model", "tier", "batch", "component"),
    *("price_version", "unit_price_nanousd_per_mtok", "grant_id", "is_simulated"),
)
PARTS = (
    *("input", "cached_input", "cache_write", "output", "reasoning", "request"),
    *("minimum", "gpu_ms"),
)
COUNTS = ("input", "cached_input", "output", "cache_write", "reasoning", "gpu_ms")
RECORD = ("project", "model", "tier", "batch", "price_version", "is_simulated")
LINKS = ("invoice_line_transfer", "invoice_transfer")
EVENTS = ("INSERT", "UPDATE", "DELETE")
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"
UNBILLED = r"'org\:' || t.org || '\:unbilled'"
ROWS = 5000


def upgrade() -> None:
    _create_tables()
    for table in (*LINKS, "invoice_line", "invoice"):
        op.execute(
            f"DELETE FROM {table} WHERE invoice_id IN "
            "(SELECT invoice_id FROM invoice WHERE status = 'draft')"
        )
    _cut()
    _sum()
    _count_transfers()
    for table in LINKS:
        op.drop_table(table)
        for event in EVENTS if _is_postgresql() else ():
            op.execute(f"DROP FUNCTION {table}_final_{event.lower()}()")
        if _is_postgresql():
            op.execute(f"DROP FUNCTION {table}_never_emptied()")
    _guard("invoice_cut")


def downgrade() -> None:
    """An earlier revision has a row for each transfer of an invoice: with any final one, this
    fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM invoice WHERE status = 'finalised'")):
        raise RuntimeError("final invoices cannot go back to a revision before 0051")
    for table in ("invoice_cut", "invoice_line", "invoice"):
        op.execute(f"DELETE FROM {table}")
    op.drop_table("invoice_cut")
    if _is_postgresql():
        for event in EVENTS:
            op.execute(f"DROP FUNCTION invoice_cut_final_{event.lower()}()")
        op.execute("DROP FUNCTION invoice_cut_never_emptied()")
    op.drop_column("invoice_line", "transfers")
    op.drop_table("charge_month")
    op.drop_table("charge_sum")
    _create_links()
    for table in LINKS:
        _guard(table)


def _create_tables() -> None:
    kinds = {"batch": sa.Boolean(), "is_simulated": sa.Boolean()}
    kinds |= {"service_start_us": sa.BigInteger(), "unit_price_nanousd_per_mtok": sa.BigInteger()}
    op.create_table(
        "charge_sum",
        *(
            sa.Column(name, kinds.get(name, sa.String()), autoincrement=False, nullable=False)
            for name in KEY
        ),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("quantity", "amount_nanousd", "transfers")
        ),
        sa.PrimaryKeyConstraint(*KEY),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "charge_month",
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("service_start_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("moved_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("org", "service_start_us"),
    )
    op.create_index("charge_month_moved", "charge_month", ["moved_us"])
    op.create_table(
        "invoice_cut",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("service_start_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("after_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("upto_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("after_us < upto_us", name="cut_forward"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "service_start_us", "after_us"),
    )
    column = sa.Column("transfers", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("invoice_line", column)


def _create_links() -> None:
    op.create_table(
        "invoice_transfer",
        sa.Column("transfer_id", sa.String(), nullable=False),
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("transfer_id"),
    )
    op.create_index("invoice_transfer_invoice", "invoice_transfer", ["invoice_id"])
    op.create_table(
        "invoice_line_transfer",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("transfer_id", sa.String(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "seq", "transfer_id"),
    )
    op.create_index("invoice_line_transfer_transfer", "invoice_line_transfer", ["transfer_id"])


# --- cuts --------------------------------------------------------------------------------------

Month = tuple[str, int]


def _cut() -> None:
    """The newest place of each month, and the cut of each final invoice. Its places are older than
    those of what was billed later or is unbilled."""
    spans: dict[Month, dict[str, tuple[int, int]]] = {}
    rows = _rows(
        "SELECT t.org, t.booked_us, t.created_us, i.invoice_id FROM transfer t "
        "LEFT JOIN invoice_transfer i ON i.transfer_id = t.transfer_id "
        "WHERE t.kind IN ('charge','reversal','burn') "
        f"AND (t.debit_account = {UNBILLED} OR t.credit_account = {UNBILLED})"
    )
    for org, booked_us, created_us, invoice_id in rows:
        of_month = spans.setdefault((org, _month_of(booked_us)), {})
        first, last = of_month.get(invoice_id or "", (created_us, created_us))
        of_month[invoice_id or ""] = (min(first, created_us), max(last, created_us))
    for (org, month_us), of_month in spans.items():
        values = {"org": org, "at": month_us, "moved": max(last for _, last in of_month.values())}
        _execute("INSERT INTO charge_month VALUES (:org, :at, :moved)", values)
        after_us = 0
        for invoice_id, (first_us, last_us) in sorted(
            of_month.items(), key=lambda span: (not span[0], span[1][1])
        ):
            if first_us <= after_us:
                raise RuntimeError(f"charges of {org} were not booked in the order of its invoices")
            if invoice_id:
                values = {"id": invoice_id, "at": month_us, "after": after_us, "upto": last_us}
                _execute("INSERT INTO invoice_cut VALUES (:id, :at, :after, :upto)", values)
            after_us = last_us


def _count_transfers() -> None:
    """Lines of final invoices learn how many transfers they have: their guard steps aside."""
    guard = "invoice_line_final_update"
    if _is_postgresql():
        op.execute(f"ALTER TABLE invoice_line DISABLE TRIGGER {guard}")
    else:
        op.execute(f"DROP TRIGGER {guard}")
    op.execute(
        "UPDATE invoice_line SET transfers = (SELECT count(*) FROM invoice_line_transfer AS link "
        "WHERE link.invoice_id = invoice_line.invoice_id AND link.seq = invoice_line.seq)"
    )
    if _is_postgresql():
        op.execute(f"ALTER TABLE invoice_line ENABLE TRIGGER {guard}")
    else:
        _sqlite_guard(guard, "invoice_line", "UPDATE", FINAL.format(row="OLD"))


# --- sums --------------------------------------------------------------------------------------

Sums = dict[tuple[Any, ...], list[int]]
Step = dict[str, tuple[int, int]]
"""By component nano-USD per million units, and how many units at most."""
Steps = list[tuple[int, Step]]
"""Prices by the length of prompt from which they hold."""


def _sum() -> None:
    sums: Sums = {}
    prices = _Prices()
    shown = ", ".join(f"r.{name}" for name in (*RECORD, *COUNTS, *(f"{p}_nanousd" for p in PARTS)))
    for record, n in (("usage_event", "'1'"), ("usage_correction", "CAST(r.n AS VARCHAR)")):
        rows = _rows(
            f"SELECT t.org, t.booked_us, t.kind, {shown} FROM transfer t "
            f"JOIN {record} r ON r.rid = t.rid AND t.transfer_id = t.rid || ':' || t.kind || ':' "
            f"|| {n} WHERE t.kind IN ('charge','reversal')"
        )
        for row in rows:
            _add_record(sums, row._mapping, prices)
    for row in _rows(
        "SELECT t.org, t.booked_us, t.kind, t.debit_account, t.credit_account, t.amount_nanousd "
        "FROM transfer t WHERE t.kind = 'burn' OR (t.kind = 'reversal' "
        r"AND t.credit_account LIKE 'org\:%\:grant\:%')"
    ):
        account = row.debit_account if row.kind == "burn" else row.credit_account
        grant_id = account.removeprefix(f"org:{row.org}:grant:")
        nothing = ("", "", "", False, "", "", 0)
        cell = (row.org, _month_of(row.booked_us), "credit", *nothing, grant_id, False)
        sign = 1 if row.kind == "reversal" else -1
        _add(sums, cell, 0, sign * row.amount_nanousd, 1)
    names = (*KEY, "quantity", "amount_nanousd", "transfers")
    text = (
        f"INSERT INTO charge_sum ({', '.join(names)}) "
        f"VALUES ({', '.join(f':{name}' for name in names)})"
    )
    for cell, (quantity, amount, count) in sums.items():
        _execute(text, dict(zip(names, (*cell, quantity, amount, count), strict=True)))


def _add_record(sums: Sums, row: Any, prices: _Prices) -> None:
    sign = -1 if row["kind"] == "reversal" else 1
    kind = "adjustment" if sign < 0 else "usage"
    step = prices.step_of(row)
    used = {part: row[part] for part in COUNTS} | {"request": 1, "minimum": 1}
    for dear, cheap in (("cache_write", "input"), ("reasoning", "output")):
        if dear not in step:
            used[cheap] += used[dear]
            used[dear] = 0
    used["gpu_ms"] = min(used["gpu_ms"], step.get("gpu_ms", (0, 0))[1])
    for part in PARTS:
        amount = row[f"{part}_nanousd"]
        quantity = 0 if part in ("request", "minimum") and not amount else used[part]
        if not quantity and not amount:
            continue
        price = step.get(part, step["input"] if part == "cached_input" else (0, 0))[0]
        of_record = (row["project"], row["model"], row["tier"], bool(row["batch"]), part)
        cell = (
            *(row["org"], _month_of(row["booked_us"]), kind, *of_record, row["price_version"]),
            *(price, "", bool(row["is_simulated"])),
        )
        _add(sums, cell, sign * quantity, sign * amount, 1 if amount else 0)


def _add(sums: Sums, cell: tuple[Any, ...], quantity: int, amount: int, count: int) -> None:
    total = sums.setdefault(cell, [0, 0, 0])
    total[0] += quantity
    total[1] += amount
    total[2] += count


class _Prices:
    """The price book as this revision reads it."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str, str, bool], Steps] = {}
        self._off: dict[tuple[str, str], int] = {}
        self._reckoned: dict[tuple[str, str, str, bool], Steps] = {}
        rates: dict[tuple[str, str, str, bool], dict[int, Step]] = {}
        for row in _rows("SELECT * FROM price_rate"):
            key = (row.version_id, row.model, row.tier, bool(row.batch))
            step = rates.setdefault(key, {}).setdefault(row.prompt_from, {})
            step[row.component] = (row.nanousd_per_mtok, row.units_max or 0)
        for key, by_prompt in rates.items():
            if {"input", "output"} <= by_prompt.get(0, {}).keys():
                step = {}
                self._steps[key] = [
                    (at, step := {**step, **by_prompt[at]}) for at in sorted(by_prompt)
                ]
        for row in _rows("SELECT version_id, model, basis_points FROM price_discount"):
            self._off[row.version_id, row.model] = row.basis_points

    def step_of(self, row: Any) -> Step:
        """The prices of a record, for the length of its prompt."""
        key = (row["price_version"], row["model"], row["tier"], bool(row["batch"]))
        if key not in self._reckoned:
            self._reckoned[key] = self._of(*key)
        prompt = row["input"] + row["cached_input"] + row["cache_write"]
        return [step for at, step in self._reckoned[key] if at <= prompt][-1]

    def _of(self, frozen: str, model: str, tier: str, batch: bool) -> Steps:
        general, _, agreement = frozen.partition("+")
        if agreement and (own := self._steps.get((agreement, model, tier, batch))):
            return own
        off = self._off.get((agreement, model), self._off.get((agreement, ""), 0))
        return [
            (at, {part: (_less(price, off), most) for part, (price, most) in step.items()})
            for at, step in self._steps[general, model, tier, batch]
        ]


def _less(price: int, basis_points: int) -> int:
    """A price less a discount, rounded half to even."""
    whole, rest = divmod(price * (10_000 - basis_points), 10_000)
    return whole + (rest > 5_000 or (rest == 5_000 and whole % 2 == 1))


# --- statements --------------------------------------------------------------------------------


def _rows(text: str) -> Iterator[Any]:
    """The rows of a statement, a part at a time."""
    streamed = {"stream_results": True, "yield_per": ROWS}
    yield from op.get_bind().execute(sa.text(text), execution_options=streamed)


def _execute(text: str, values: dict[str, Any]) -> None:
    op.get_bind().execute(sa.text(text), values)


def _month_of(at_us: int) -> int:
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return int(datetime(at.year, at.month, 1, tzinfo=UTC).timestamp()) * 1_000_000


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"


def _guard(table: str) -> None:
    """What is of a final invoice never changes, and PostgreSQL never empties the table."""
    for event in EVENTS:
        name = f"{table}_final_{event.lower()}"
        when = FINAL.format(row="NEW" if event == "INSERT" else "OLD")
        if not _is_postgresql():
            _sqlite_guard(name, table, event, when)
            continue
        op.execute(
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF {when} THEN RAISE EXCEPTION '{table} may not change' USING ERRCODE = '23000'; "
            f"END IF; RETURN {'OLD' if event == 'DELETE' else 'NEW'}; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW "
            f"EXECUTE FUNCTION {name}()"
        )
    if _is_postgresql():
        name = f"{table}_never_emptied"
        op.execute(
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {name} BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {name}()"
        )


def _sqlite_guard(name: str, table: str, event: str, when: str) -> None:
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN {when} "
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )
