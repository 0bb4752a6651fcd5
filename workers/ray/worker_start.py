"""What a raylet runs for each worker: it hands the start to a spare, which has imported everything.

Uses nothing but the standard library, because a raylet waits for it. Where no spare takes the
start, and for another interpreter than theirs, it becomes Ray's own worker.
"""

import json
import os
import socket
import sys
from contextlib import suppress

SOCKET = "SLUICE_SPARES"
"""The variable with the socket of the spares of this node, beside those with their interpreter and
with Ray's own script."""
INTERPRETER = "SLUICE_SPARES_PYTHON"
WORKER = "SLUICE_RAY_WORKER"
START = "SLUICE_START"
"""The variable of a worker with the pipe that is open while it starts."""
PATIENCE_S = 30.0
"""How long a start waits for an answer, as while the first spare is made."""
TAKEN = b"!"


def main() -> None:
    if os.environ.get(INTERPRETER) != sys.executable or not _is_taken():
        os.execv(sys.executable, [sys.executable, os.environ[WORKER], *sys.argv[1:]])


def _is_taken() -> bool:
    """Whether a spare goes on as this worker. Both sides say so, so that a start that is given up
    is not taken as well."""
    start = {"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}
    with suppress(OSError), socket.socket(socket.AF_UNIX) as spare:
        spare.settimeout(PATIENCE_S)
        spare.connect(os.environ[SOCKET])
        socket.send_fds(spare, [TAKEN], [0, 1, 2])
        spare.sendall(json.dumps(start).encode() + b"\n")
        if spare.recv(1) != TAKEN:
            return False
        spare.sendall(TAKEN)
        return True
    return False


def end_start() -> None:
    """Say that this worker is up, so that a spare is made in its place. Nothing where it was not
    one."""
    if (pipe := os.environ.pop(START, None)) is not None:
        with suppress(OSError):
            os.close(int(pipe))


if __name__ == "__main__":
    main()
