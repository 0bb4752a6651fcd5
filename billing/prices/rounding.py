"""The one way in which Sluice rounds: to the nearest integer, a tie to the even neighbour."""


def divide_half_even(dividend: int, divisor: int) -> int:
    """Integer division rounded half to even; divisor > 0."""
    whole, rest = divmod(dividend, divisor)
    if rest * 2 > divisor or (rest * 2 == divisor and whole % 2):
        return whole + 1
    return whole
