"""Instants and periods as people write them, in UTC unless an offset says otherwise."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

UNITS = {"m": 60, "h": 3600, "d": 86400}


class Instant(click.ParamType[int]):
    """ISO 8601, or seconds of the epoch; whole seconds of the epoch come out."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if text.isascii() and text.isdigit() and len(text) > 8:
            return int(text)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no time as in 2026-11-22 or 2026-11-22T18:00:00Z", param, ctx)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


class Period(click.ParamType[tuple[int, int]]):
    """A month or a day in UTC: its first second, and the first one after it."""

    name = "period"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        for form in ("%Y-%m", "%Y-%m-%d"):
            try:
                begin = datetime.strptime(str(value), form).replace(tzinfo=UTC)
            except ValueError:
                continue
            day = timedelta(days=1) if form.endswith("%d") else timedelta(days=32)
            end = begin + day if form.endswith("%d") else (begin + day).replace(day=1)
            return int(begin.timestamp()), int(end.timestamp())
        self.fail(f"{value!r} is no month as in 2026-11 and no day as in 2026-11-22", param, ctx)


class Span(click.ParamType[int]):
    """`90m`, `24h`, `7d`: seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        number, unit = text[:-1], text[-1:]
        if unit in UNITS and number.isascii() and number.isdigit() and 0 < len(number) < 7:
            return int(number) * UNITS[unit]
        self.fail(f"{text!r} is no span as in 90m, 24h or 7d", param, ctx)


INSTANT, PERIOD, SPAN = Instant(), Period(), Span()
