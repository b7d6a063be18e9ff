"""What ``/predict`` answers, for the OpenAPI description; the values are made in ``answer``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PROBLEMS = {
    400: "the form or the JSON cannot be read",
    401: "a token is wanted",
    403: "asked under a name that is not this machine's",
    408: "the request took too long to arrive",
    413: "too many bytes or pixels",
    415: "neither a form, nor JSON, nor an image",
    422: "the image cannot be read",
    500: "the model failed",
    503: "too many requests are waiting, or the workers are not ready",
    504: "there was no answer in time",
}


class ClassProbability(BaseModel):
    """A class and how probable it is."""

    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="class")
    probability: float


class PredictAnswer(BaseModel):
    """The class of an image, and how its object sits in the photo. What is not known is null."""

    model_config = ConfigDict(extra="allow")  # a primitive that is not described here is answered all the same
    prediction: str | list[str] = Field(description="the class; all above ½ where they do not exclude each other")
    probability: float = Field(description="of the class; the mean over yes or no for each where there are several")
    top: list[ClassProbability]
    rotation_deg: float | None = Field(
        description="clockwise; where mirrored, it was turned by this and then seen in a mirror"
    )
    rotation_spread_deg: float | None = Field(description="standard deviation of the belief")
    scale: float | None
    scale_spread: float | None
    shear: float | None
    shear_spread: float | None
    translation_px: list[float] | None = Field(description="right and down, in pixels of the photo")
    translation_spread_px: float | None
    mirrored: bool | None = Field(description="left-right")
    entropy: dict[str, float] = Field(description="of the belief about each primitive: 0 certain, 1 no idea")
    views: int = Field(description="poses that were looked at")
    disagreement: float | None = Field(description="of the answers in these poses, nats; 0 where one was enough")
    pose_ambiguous: bool | None = Field(description="several poses fit; null without thresholds for this call")
    class_uncertain: bool | None = Field(description="do not trust the label; null without thresholds for this call")
    poses: Literal["absolute", "relative"] = Field(description="relative: consistent with each other, not upright")
    estimated: list[str] = Field(description="the primitives that the model estimates; the others are null")
    photo_px: list[int] = Field(description="width and height of the photo")


class Problem(BaseModel):
    """Why a request was refused."""

    status: int
    detail: str
