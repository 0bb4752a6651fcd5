"""Times, counts and money as people read them. Pure; money stays exact, and times are UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime

from billing.money import usd

DECIMALS = 9
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount in USD, cut where figures in a column line up: `12,345` `.0625` `00000`."""

    whole: str
    decimals: str
    padding: str

    @property
    def text(self) -> str:
        return f"{self.whole}.{self.decimals}"


def money(nanousd: int) -> Money:
    whole, decimals = usd(nanousd).removeprefix("-").split(".")
    sign = "\N{MINUS SIGN}" if nanousd < 0 else ""
    return Money(f"{sign}{int(whole):,}", decimals, "0" * (DECIMALS - len(decimals)))


def about_usd(nanousd: int) -> str:
    """An estimate, with three digits or so: `12.30`, `0.4170`, `0.000062`."""
    amount = nanousd / 1e9
    digits = 2 if amount >= 10 else 4 if amount >= 0.01 or not amount else 6
    return f"{amount:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class DisplayTime:
    """`clock` for today, `date` besides when it was another day; `iso` in full."""

    clock: str
    date: str
    iso: str


def instant(at_us: int, now_us: int) -> DisplayTime:
    at = datetime.fromtimestamp(at_us // SECOND_US, UTC)
    today = datetime.fromtimestamp(now_us // SECOND_US, UTC).date()
    date = (
        "" if at.date() == today else f"{at:%d %b}" if at.year == today.year else f"{at:%d %b %Y}"
    )
    return DisplayTime(f"{at:%H:%M:%S}", date, f"{at:%Y-%m-%dT%H:%M:%SZ}")


def duration(us: int) -> str:
    """`840 µs`, `41 ms`, `1.52 s`, `2 min 05 s`, `3 h 07 min`, `2 d 4 h`."""
    if us < 1000:
        return f"{max(0, us)} µs"
    if us < SECOND_US:
        return f"{us / 1000:.1f} ms" if us < 10_000 else f"{us // 1000} ms"
    if us < 60 * SECOND_US:
        digits = 2 if us < 10 * SECOND_US else 1
        return f"{us / SECOND_US:.{digits}f} s"
    minutes, seconds = divmod(us // SECOND_US, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def since(us: int) -> str:
    """How long a state has lasted, in the one or two units that matter: `4 s`, `12 min`, `3 h`."""
    seconds = max(0, us) // SECOND_US
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit} {name}"
    return f"{seconds // 86_400} d"


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short_id(identity: str) -> str:
    """The end of an id: ids sort by time, so that their ends tell them apart."""
    kind, _, rest = identity.partition("_")
    return f"{kind}_…{rest[-8:]}" if len(rest) > 10 else identity


def capacity_words(capacity_class: str, is_simulated: bool) -> str:
    """`on-demand`, and whether its GPUs are there."""
    words = capacity_class.replace("_", "-")
    return f"{words}, simulated" if is_simulated else words
