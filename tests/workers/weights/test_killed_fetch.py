"""A process that is killed with -9 in the middle of a fetch, and the next one."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.workers.weights.checkpoints import checkpoint, in_store, manifest
from tests.workers.weights.file_server import FileServer, served
from workers.weights.sources import GatewayStore
from workers.weights.store import NodeStore

PATIENCE_S = 60.0
FILES = checkpoint(3, size=4 << 20)
ID = manifest(FILES).checksum
FETCH = """
import sys, time
from pathlib import Path
from workers.weights.sources import GatewayStore
from workers.weights.store import NodeStore
root, url, id = sys.argv[1:]
source = GatewayStore(url, id, "secret")
store = NodeStore(Path(root), bytes_max=None, now_ns=lambda: 1, pause=time.sleep)
store.use(id, source, source, lambda here, all: print(here, flush=True))
"""


def test_what_a_killed_process_fetched_is_not_fetched_again(tmp_path: Path) -> None:
    with served(FileServer(in_store(FILES))) as server:
        path = next(path for path in server.files if path.endswith("model.safetensors"))
        server.gates[path] = threading.Event()
        command = [sys.executable, "-c", FETCH, str(tmp_path), server.url, ID]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert server.halfway.wait(PATIENCE_S)
            while int(process.stdout.readline()) < len(FILES[path.rsplit("/", 1)[1]]) // 2:
                pass
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
        server.gates.pop(path).set()
        store = NodeStore(tmp_path, bytes_max=None, now_ns=lambda: 2, pause=lambda s: None)
        assert store.whole() == []
        source = GatewayStore(server.url, ID, "secret")
        folder = store.use(ID, source, source).folder
        assert {name: (folder / name).read_bytes() for name in FILES} == FILES
        first, second = server.asked("model.safetensors")
    assert first is None
    assert second is not None
    assert int(second.removeprefix("bytes=").removesuffix("-")) > 1 << 20
    assert len(server.asked("config.json")) == 1
