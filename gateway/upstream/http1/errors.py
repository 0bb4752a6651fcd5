"""How an exchange fails."""


class HttpError(Exception):
    """The exchange failed after it may have reached the server."""


class ConnectFailed(HttpError):
    """No connection came about: nothing was sent."""


class TooLate(HttpError):
    """What was awaited within a time did not come in it."""
