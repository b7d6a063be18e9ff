"""The inscribed disc: the part of an image that no rotation about the centre takes anything out of, or into.

Outside of it lie the corners. In a turned image they are made up by the padding, and its seams give the angle away,
which nothing in a photo from the world does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tokenstn.geometry.constants import constant

RIM = 0.85  # of the largest radius: the ring outside of this gives the colour around the disc


def hide_corners(images: Tensor) -> Tensor:
    """Images ``(B, C, H, W)`` of which only the inscribed disc is left; around it the mean colour along its rim.

    The disc looks the same from every side, and that colour does not change when the image is turned: neither says
    anything about the angle, and the edge of the disc disturbs an honest reader as little as can be.

    >>> hide_corners(torch.eye(4)[None, None])[0, 0]
    tensor([[0., 0., 0., 0.],
            [0., 1., 0., 0.],
            [0., 0., 1., 0.],
            [0., 0., 0., 0.]])
    """
    inside, rim = constant(_disc, *images.shape[-2:], like=images).unbind()
    wide = torch.promote_types(images.dtype, torch.float32)  # a sum over a large image overflows half precision
    colour = (images * rim).sum((-2, -1), keepdim=True, dtype=wide) / rim.sum(dtype=wide)
    return torch.where(inside.bool(), images, colour.to(images.dtype))


def _disc(height: int, width: int, device: torch.device) -> Tensor:
    """Which pixels lie in the disc, and which of them along its rim, ``(2, height, width)`` of 0 and 1.

    Made once for each size: choosing pixels by a mask waits for a GPU to say how many there are.
    """
    y = (2 * torch.arange(height, device=device) + 1 - height) / min(height, width)
    x = (2 * torch.arange(width, device=device) + 1 - width) / min(height, width)
    radius = torch.hypot(y[:, None], x)
    inside = radius <= 1
    return torch.stack((inside, inside & (radius >= RIM * radius[inside].max())))
