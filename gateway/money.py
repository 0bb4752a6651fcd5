"""Nano-USD on the wire: decimal strings in USD, exact both ways."""

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

NANO_PER_USD = 1_000_000_000
NANOUSD_MAX = 2**63 - 1
"""What a column of SQL holds: 9.2 thousand million USD."""
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation, Overflow])


def usd(nanousd: int) -> str:
    """`1500000000` as `1.5`; never a float, never an exponent."""
    sign, whole = ("-", -nanousd) if nanousd < 0 else ("", nanousd)
    dollars, nanos = divmod(whole, NANO_PER_USD)
    fraction = f"{nanos:09d}".rstrip("0")
    return f"{sign}{dollars}.{fraction}" if fraction else f"{sign}{dollars}"


def nanousd(text: str) -> int:
    """The inverse of `usd`; raises ValueError where it is no amount, finer than a nano-USD or
    beyond NANOUSD_MAX."""
    try:
        scaled = _EXACT.multiply(Decimal(text), Decimal(NANO_PER_USD))
    except ArithmeticError as wrong:
        raise ValueError(f"not an amount in USD: {text!r}") from wrong
    if not scaled.is_finite() or abs(scaled) > NANOUSD_MAX:
        raise ValueError(f"not an amount in USD: {text!r}")
    if scaled != int(scaled):
        raise ValueError(f"finer than a nano-dollar: {text!r}")
    return int(scaled)
