"""What this gateway expects of each model's answers."""

from gateway.versions.keeper import Active
from routing.quality.model import QualityModel


class ActiveQuality(Active[QualityModel | None]):
    """None until a document is active: the table of validated qualities stands alone."""
