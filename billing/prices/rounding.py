"""The one way in which Sluice rounds: to the nearest integer, a tie to the even neighbour."""


def divide_half_even(dividend: int, divisor: int) -> int:
    """Integer division rounded half to even; divisor > 0."""
    whole, rest = divmod(dividend, divisor)
    if rest * 2 > divisor or (rest * 2 == divisor and whole % 2):
        return whole + 1
    return whole


def divide_half_away(dividend: int, divisor: int) -> int:
    """Integer division rounded half away from zero; divisor > 0. The opposite of a dividend gives
    the opposite result."""
    rounded = (abs(dividend) * 2 + divisor) // (2 * divisor)
    return rounded if dividend >= 0 else -rounded
