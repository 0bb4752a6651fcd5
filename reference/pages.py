"""Every reference page by its file name."""

import random
from collections.abc import Mapping
from typing import Any

from gateway.app import create_app
from gateway.parts import Outside
from gateway.settings import load_settings
from reference.api import administration, objects, routes
from reference.commands import commands
from reference.errors import errors
from reference.metrics import metrics
from reference.policies import policies
from reference.settings import settings


def pages() -> Mapping[str, str]:
    described = description()
    return {
        "api.md": routes(described),
        "admin-api.md": administration(described),
        "objects.md": objects(described),
        "settings.md": settings(),
        "commands.md": commands(),
        "errors.md": errors(),
        "metrics.md": metrics(),
        "policies.md": policies(),
    }


def description() -> dict[str, Any]:
    """The OpenAPI document of a gateway that is made for this alone."""
    nothing = Outside(
        clock=lambda: 0.0, rng=random.Random(0), entropy=random.Random(0).randbytes, environment={}
    )
    return create_app(load_settings(), nothing).openapi()
