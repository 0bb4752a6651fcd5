"""Which pools share a calibration, and what bounds it. Pure."""

from routing.economics.roofline import Roofline, UnknownHardware, roofline
from routing.types import Pool


def target_of(pool: Pool) -> str:
    """Pools of one variant on the same hardware share one. Of a server outside, and of a pool that
    does not say what it runs on, nobody knows what it has in common with others."""
    if pool.is_external or pool.hardware is None:
        return f"pool {pool.name}"
    target = f"{pool.model}/{pool.variant} on {pool.gpus} x {pool.hardware}"
    return f"{target}, simulated at {pool.speed or 1.0:g}" if pool.is_simulated else target


def line_of(pool: Pool) -> Roofline | None:
    """The ceilings of a replica; None where the shape of the variant or the bandwidth of the part
    is not known."""
    declared, part = pool.declared, pool.part
    if part is None or declared is None or declared.shape is None:
        return None
    try:
        line = roofline(declared.shape, declared.quantization, part, pool.gpus)
    except UnknownHardware:
        return None
    return line.at(pool.speed or 1.0)
