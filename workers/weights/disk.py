"""The steps that a store does on its disk, one method each: a test makes any of them fail."""

import os
import shutil
from pathlib import Path
from typing import BinaryIO


class Disk:
    def write(self, file: BinaryIO, chunk: bytes) -> None:
        file.write(chunk)

    def sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def sync_folder(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def free_bytes(self, folder: Path) -> int:
        return shutil.disk_usage(folder).free
