"""What a process of the nursery has imported when it begins: everything that a part or a command of
Sluice needs. It is frozen, for a child whose collector looked at it would copy it, page by page."""

import gc
from importlib import import_module
from pkgutil import iter_modules

from gateway import commands

PARTS = (
    *("billing.__main__", "gateway.cli", "gateway.server.process", "migrations.run"),
    *(f"gateway.commands.{module.name}" for module in iter_modules(commands.__path__)),
    *(f"tests.chaos.{part}_process" for part in ("edge", "gateway", "ledger")),
)

gc.disable()
for name in PARTS:
    import_module(name)
gc.collect()
gc.freeze()
gc.enable()
