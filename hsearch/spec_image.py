"""How a network's input is made from stored images."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from hsearch.spec_base import Count, NonNegative, Positive, Spec

Probability = Annotated[float, Field(ge=0, le=1)]
Turn = Annotated[float, Field(ge=0, le=0.5)]
Magnitude = Annotated[int, Field(ge=0, le=30)]


class ImageSpec(Spec):
    """How stored images become network input.

    Training: resize the short side, random crop, flip, colours, cutout, RandAugment.
    Evaluation: resize the short side, centre crop; or squeeze the whole image.

    Attributes:
        resize: Short side in pixels before cropping.
        crop: Side of the square network input.
        cropping: `resized` (RandomResizedCrop of `scale` and `ratio`) or `squeezed` (the image is
            squeezed to a square of side `resize`, from which a square of side `crop` is cut).
        evaluated: Which part of an image is evaluated: its `centre`, or all of it, `squeezed` to a
            square of side `crop`, as is usual where labels may be anywhere.
        scale: Range of the cropped share of the area.
        ratio: Range of the crop's aspect ratio.
        flip: Probability of a horizontal flip.
        color_jitter: Largest relative change of brightness, contrast and saturation, and largest
            turn of the hue (0 to 0.5), each drawn uniformly.
        color_jitter_chance: Probability that an image's colours are changed like that.
        grayscale: Probability that an image loses its colours.
        cutout: Side of a square that is painted over at random, as a share of the image's; 0 for
            none, and 0.5 in multi-label recipes.
        randaugment: How many random changes an image goes through, and how strong they are, from
            0 to 30 (2 and 9 are usual); null for none.
        mean: Per channel, subtracted after scaling to 0..1.
        std: Per channel, divided by.
        range_max: Value of a full channel before mean and std: 1, or 255 for Caffe-style weights.
        channels: Order of the channels that the network wants.
        interpolation: How images are resized: `bilinear` or `bicubic`, both with antialiasing.
        cached_views: In the frozen regime, how many random views of every training image there
            are, whose features are cached; batches draw among them. 0 trains on images as they are
            evaluated. Other regimes ignore it and draw a new view every time.
    """

    later: ClassVar[tuple[str, ...]] = (
        "evaluated",
        "cutout",
        "randaugment",
        "interpolation",
        "cached_views",
    )

    resize: Count = 256
    crop: Count = 224
    cropping: Literal["resized", "squeezed"] = "resized"
    evaluated: Literal["centre", "squeezed"] = "centre"
    scale: tuple[Positive, Positive] = (0.08, 1.0)
    ratio: tuple[Positive, Positive] = (3 / 4, 4 / 3)
    flip: Probability = 0.5
    color_jitter: tuple[NonNegative, NonNegative, NonNegative, Turn] = (0.0, 0.0, 0.0, 0.0)
    color_jitter_chance: Probability = 0.8
    grayscale: Probability = 0.0
    cutout: Probability = 0.0
    randaugment: tuple[Count, Magnitude] | None = None
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Positive, Positive, Positive] = (0.229, 0.224, 0.225)
    range_max: Literal[1, 255] = 1
    channels: Literal["rgb", "bgr"] = "rgb"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    cached_views: Annotated[int, Field(ge=0, le=64)] = 4

    @model_validator(mode="after")
    def _ranges_are_ordered(self) -> Self:
        for name in ("scale", "ratio"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"`image.{name}` must be [low, high], but got [{low}, {high}]")
        if self.scale[1] > 1:
            raise ValueError(f"`image.scale` must stay within 0..1, but got {self.scale[1]}")
        if self.crop > self.resize:
            raise ValueError(
                f"`image.crop` must not exceed `image.resize`, but {self.crop} > {self.resize}"
            )
        return self
