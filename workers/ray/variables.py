"""The variables that the process of every replica has, on our own cluster and on others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.settings import WorkersSettings

WORKER_SECRET = "SLUICE_WORKER_SECRET"


def replica_variables(settings: WorkersSettings) -> dict[str, str]:
    ray = settings.ray
    threads = str(ray.worker_threads)
    return {
        WORKER_SECRET: settings.worker_secret.get_secret_value(),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1" if ray.throughput_optimized else "0",
        "RAY_SERVE_ENABLE_DIRECT_INGRESS": "1",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": str(ray.min_draining_s),
    }
