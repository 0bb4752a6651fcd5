"""The contract of engines, kept by vLLM in the environment that `make vllm-test` makes."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from workers.settings import VllmSettings

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LIMIT_S = 400


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 20)
def test_vllm_keeps_the_contract_of_engines() -> None:
    python = VllmSettings().interpreter
    assert python.exists(), "make vllm-test"
    contract = [HERE / f"test_{name}.py" for name in ("contract", "forms", "steering")]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--confcutdir={HERE}", "-k", "vllm"]
    ended = subprocess.run(
        [python, *words, *contract],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed and int(passed[1]) > 60
    assert "skipped" not in ended.stdout
