"""What ends `sluice up` before its time."""


class CannotStart(Exception):
    """One line for the user: what is in the way, and what to do about it."""
