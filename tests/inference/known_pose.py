"""A model that finds a pose that is known beforehand, whatever it is shown."""

import torch
from torch import Tensor, nn

from tokenstn import Preprocessing, TokenSTN
from tokenstn.geometry import PRIMITIVES, Pose, Primitive, Reflection

from ..models.classifiers import small_vit

BOUNDS = {"translation": 1.0, "scale": 0.25}


class Known(nn.Module):
    """In the place of a localizer: the numbers that a point posterior makes a given pose of."""

    def __init__(self, pose: Pose, primitives: tuple[Primitive, ...]) -> None:
        super().__init__()
        self.raw = {
            primitive.name: getattr(pose, primitive.name)
            if isinstance(primitive, Reflection)
            else primitive.unsquash(getattr(pose, primitive.name))
            for primitive in primitives
        }

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        return {name: value.reshape(1, -1).float().expand(len(tokens), -1) for name, value in self.raw.items()}


def known_model(
    pose: Pose, names=("rotation",), channels: int = 3, resize: str = "crop", size: int = 32, **settings
) -> TokenSTN:
    """A TokenSTN around a small ViT that finds ``pose`` in the network's frame in every image."""
    torch.manual_seed(0)
    primitives = tuple(PRIMITIVES[name](BOUNDS[name]) if name in BOUNDS else PRIMITIVES[name]() for name in names)
    model = TokenSTN(
        small_vit(in_chans=channels, img_size=size),
        primitives,
        "point",
        preprocessing=Preprocessing((size, size), (0.5,) * channels, (0.25,) * channels, resize),
        **settings,
    )
    if model.primitives:
        model.localizer = Known(pose, model.primitives)
    return model.eval()
