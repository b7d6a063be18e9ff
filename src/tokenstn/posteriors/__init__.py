"""What the network believes about each primitive: four families behind one interface, and their product."""

from tokenstn.geometry import Primitive, Rotation
from tokenstn.posteriors.base import Candidates, Posterior, RandomSource
from tokenstn.posteriors.circular import Circular
from tokenstn.posteriors.gaussian import Gaussian
from tokenstn.posteriors.joint import Views, best_pose, most_probable_poses, random_poses
from tokenstn.posteriors.point import Point
from tokenstn.posteriors.student import Student

POSTERIORS: dict[str, type[Posterior]] = {
    "circular": Circular,
    "gaussian": Gaussian,
    "student": Student,
    "point": Point,
}


def family_of(posterior: str, primitive: Primitive) -> type[Posterior]:
    """The family that a model's ``posterior`` means for one primitive: under circular, all but rotation are Gaussian.

    >>> from tokenstn.geometry import Scale
    >>> family_of("circular", Scale()).__name__
    'Gaussian'
    """
    if posterior not in POSTERIORS:
        raise ValueError(f"unknown posterior {posterior!r}; there are {', '.join(POSTERIORS)}")
    if posterior == "circular" and not isinstance(primitive, Rotation):
        return Gaussian
    return POSTERIORS[posterior]


__all__ = [
    "POSTERIORS",
    "Candidates",
    "Circular",
    "Gaussian",
    "Point",
    "Posterior",
    "RandomSource",
    "Student",
    "Views",
    "best_pose",
    "family_of",
    "most_probable_poses",
    "random_poses",
]
