"""Nano-USD on the wire: decimal strings in USD, exact both ways."""

from decimal import Decimal, InvalidOperation

NANO_PER_USD = 1_000_000_000


def usd(nanousd: int) -> str:
    """`1500000000` as `1.5`; never a float, never an exponent."""
    sign, whole = ("-", -nanousd) if nanousd < 0 else ("", nanousd)
    dollars, nanos = divmod(whole, NANO_PER_USD)
    fraction = f"{nanos:09d}".rstrip("0")
    return f"{sign}{dollars}.{fraction}" if fraction else f"{sign}{dollars}"


def nanousd(text: str) -> int:
    """The inverse of `usd`; raises ValueError where it is no amount or finer than a nano-USD."""
    try:
        scaled = Decimal(text) * NANO_PER_USD
        amount = int(scaled)
    except (InvalidOperation, OverflowError, ValueError) as wrong:
        raise ValueError(f"not an amount in USD: {text!r}") from wrong
    if amount != scaled:
        raise ValueError(f"finer than a nano-dollar: {text!r}")
    return amount
