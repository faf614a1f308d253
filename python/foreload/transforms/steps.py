# SPDX-License-Identifier: Apache-2.0
"""Steps of a transform and chains of them: data that C++ compiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from foreload import _core
from foreload._keywords import suggests_keywords
from foreload.transforms import augment_tables as tables
from foreload.transforms.mixing import CutMix, MixUp
from foreload.transforms.python_images import decode_other, other_decoder

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = int | Sequence[int]
Range = float | Sequence[float]


class Step:
    """One step: its name and what it was given."""

    # Whether numbers are rounded as in torchvision.transforms, not as in its v2.
    _first_generation = False

    def __init__(self, **given: Any) -> None:
        self._given = given

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):
            setattr(cls, "__init__", suggests_keywords(cls.__init__))  # noqa: B010 - mypy

    def to_dict(self) -> dict[str, Any]:
        """The step as a dict, as `Compose.to_json` writes it."""
        return {"step": type(self).__name__, **self._given, **self._generation()}

    def _generation(self) -> dict[str, Any]:
        return {"first_generation": True} if self._first_generation else {}

    def _augment(self, policies: list[list[dict[str, Any]]], times: int = 1) -> dict[str, Any]:
        kept = {key: self._given[key] for key in ("interpolation", "fill")}
        made = {"step": "Augment", "policies": policies, "times": times}
        return {**made, **kept, **self._generation()}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, Step):
            return False
        return other.to_dict() == self.to_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self._given.items())
        return f"{type(self).__name__}({given})"


class Compose:
    """Steps one after another."""

    _tv_image = False  # whether a single image is torchvision's Image, as after its ToImage

    def __init__(self, transforms: Sequence[Step | Compose]) -> None:
        self.transforms: list[Step] = []
        for entry in transforms:
            if isinstance(entry, Compose):
                self.transforms.extend(entry.transforms)
            elif isinstance(entry, Step):
                self.transforms.append(entry)
            elif isinstance(entry, MixUp | CutMix):
                raise TypeError(
                    f"{entry!r} is for whole batches: give it to the DataLoader as batch_transform="
                )
            else:
                raise TypeError(
                    f"{entry!r} is not a step of foreload.transforms: for torchvision's use "
                    "foreload.transforms.from_torchvision, for a function of your own give the "
                    "DataLoader a function as its transform"
                )

    def to_json(self) -> str:
        """The chain as C++ reads it."""
        steps = [step.to_dict() for step in self.transforms]
        if not any(isinstance(step, ToLayout) for step in self.transforms):
            steps.append({"step": "ToLayout", "layout": "chw"})
        return json.dumps([{k: v for k, v in s.items() if k != "channels_last"} for s in steps])

    def compile(self) -> _core.CompiledTransform:
        """Check the chain and compile it; ValueError names the step that makes no sense.

        `compile().for_masks()` is the same transform for masks of the images.
        """
        return _core.compile_transform(self.to_json(), decode_other, other_decoder())

    @property
    def channels_last(self) -> bool:
        """Whether torch sees NCHW tensors that are laid out as NHWC."""
        return any(isinstance(s, ToLayout) and s.channels_last for s in self.transforms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compose) and other.transforms == self.transforms

    def __hash__(self) -> int:
        return hash(tuple(self.transforms))

    def __repr__(self) -> str:
        return f"Compose([{', '.join(map(repr, self.transforms))}])"


def _numbers(name: str, values: Any, count: int) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except TypeError:
        numbers = []
    if len(numbers) != count:
        raise ValueError(f"{name} is {values!r}: give {count} numbers")
    return numbers


def _range(name: str, value: Any) -> list[float]:
    """Two numbers; one stands for both signs of it."""
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"{name} must not be below 0 where it is one number, but is {value}")
        return [-float(value), float(value)]
    return _numbers(name, value, 2)


def _fill(fill: Any) -> list[int]:
    """A colour: one number for all channels, or three."""
    colour = [fill or 0] * 3 if fill is None or isinstance(fill, int | float) else list(fill)
    colour = colour * 3 if len(colour) == 1 else colour
    if len(colour) != 3 or any(value != int(value) or not 0 <= value <= 255 for value in colour):
        raise ValueError(f"fill must be one or three whole numbers from 0 to 255, not {fill!r}")
    return [int(value) for value in colour]


def _padding(padding: Any) -> list[int]:
    """Left, top, right and bottom."""
    sides = [padding or 0] if padding is None or isinstance(padding, int) else list(padding)
    if len(sides) not in (1, 2, 4) or not all(isinstance(n, int) and n >= 0 for n in sides):
        raise ValueError(f"padding must be 1, 2 or 4 numbers of pixels, not {padding!r}")
    return (sides * 4)[:4]


def _padding_mode(mode: str) -> str:
    if mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(
            f"padding_mode {mode!r} is not available: use 'constant', 'edge', 'reflect' or "
            "'symmetric'"
        )
    return mode


def _rule(rule: str) -> str:
    if rule not in ("pillow", "torch"):
        raise ValueError(f"rule is {rule!r}: use 'pillow' or 'torch'")
    return rule


def _both_sides(size: Size) -> list[int]:
    """Height and width; one number stands for a square."""
    sides = [size, size] if isinstance(size, int) else list(size)
    if len(sides) == 1:
        sides *= 2
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f"size must be one or two numbers of pixels above 0, not {size!r}")
    return sides


def _interpolation(value: Any) -> str:
    name = str(getattr(value, "value", value)).lower()
    if isinstance(value, int) and not isinstance(value, bool):  # Pillow's numbers
        name = {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(int(value), name)
    if name == "nearest-exact":  # of images, Pillow has one way
        name = "nearest"
    if name not in ("nearest", "bilinear", "bicubic"):
        raise ValueError(
            f"interpolation {value!r} is not available: use 'nearest', 'bilinear' or 'bicubic'"
        )
    return name


def _antialias(antialias: bool | None) -> None:
    if antialias is False:
        raise ValueError(
            "antialias=False is not available: leave it out, images are always resized with "
            "antialiasing"
        )


_FILE_TYPES = ("uint8", "uint16", "int16", "int32", "float16", "float32", "float64")


def _dtype(dtype: Any, known: Sequence[str]) -> str:
    """The name of a type, given as such or as torch's or numpy's object."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    if name not in known:
        raise ValueError(
            f"dtype {dtype!r} is not available: use {', '.join(known[:-1])} or {known[-1]}"
        )
    return name


class Decode(Step):
    """Decode an image: JPEG, PNG, WebP, GIF and arrays in .npy files by C++, other formats by
    Pillow where it is installed.

    Args:
        mode: "RGB", "L" (grey), or "RGBA" (alpha is kept; what has none is opaque).
        exif_orientation: Whether images are turned upright as their EXIF entry says.
        fast: Decode JPEG at a fraction of its size where the next steps shrink it further anyway.
        dtype: What files hold, and the batch without `ToDtype` or `Normalize`. "uint8": images of
            16 bits are cut to 8. "uint16": they are kept, those of 8 bits are multiplied by 257.
            "int16", "int32", "float16", "float32", "float64": arrays in .npy files only.
    """

    def __init__(
        self,
        mode: str = "RGB",
        *,
        exif_orientation: bool = False,
        fast: bool = False,
        dtype: Any = "uint8",
    ) -> None:
        modes = {"rgb": "rgb", "l": "grey", "grey": "grey", "gray": "grey", "rgba": "rgba"}
        if mode.lower() not in modes:
            raise ValueError(f"mode is {mode!r}: use 'RGB', 'L' or 'RGBA'")
        given: dict[str, Any] = {
            "mode": modes[mode.lower()],
            "exif_orientation": bool(exif_orientation),
            "fast": bool(fast),
        }
        if _dtype(dtype, _FILE_TYPES) != "uint8":
            given["dtype"] = _dtype(dtype, _FILE_TYPES)
        super().__init__(**given)

    @property
    def bytes_only(self) -> bool:
        """Whether it gives one or three bytes a pixel."""
        return "dtype" not in self._given and self._given["mode"] != "rgba"


class RandomResizedCrop(Step):
    """A random part of the image, of random area and shape, resized. For `rule` see `Resize`."""

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        rule: str = "pillow",
    ) -> None:
        _antialias(antialias)
        given: dict[str, Any] = {
            "size": _both_sides(size),
            "scale": _numbers("scale", scale, 2),
            "ratio": _numbers("ratio", ratio, 2),
            "interpolation": _interpolation(interpolation),
        }
        if _rule(rule) != "pillow":
            given["rule"] = rule
        super().__init__(**given)


class Resize(Step):
    """Resize to (height, width), or so that the shorter side has the length given.

    With rule="pillow" pixels are those of Pillow's images; with "torch" those of torch's tensors of
    8 bits on CPUs, which differ by one level here and there.
    """

    def __init__(
        self,
        size: Size,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
        rule: str = "pillow",
    ) -> None:
        _antialias(antialias)
        one = size if isinstance(size, int) else size[0] if len(size) == 1 else None
        given: dict[str, Any] = {
            "size": _both_sides(size) if one is None else _both_sides(one)[0],
            "interpolation": _interpolation(interpolation),
        }
        if max_size is not None:
            given["max_size"] = max_size
        if _rule(rule) != "pillow":
            given["rule"] = rule
        super().__init__(**given)


class CenterCrop(Step):
    """The middle of the image; padded with 0 where the image is smaller."""

    def __init__(self, size: Size) -> None:
        super().__init__(size=_both_sides(size))


class RandomCrop(Step):
    """A random part of the size given."""

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        given: dict[str, Any] = {
            "size": _both_sides(size),
            "padding": _padding(padding),
            "pad_if_needed": bool(pad_if_needed),
            "fill": _fill(fill),
        }
        if _padding_mode(padding_mode) != "constant":
            given["padding_mode"] = padding_mode
        super().__init__(**given)


class Pad(Step):
    """Pixels added on all sides: a colour, or what lies at the edge ("edge", "reflect",
    "symmetric")."""

    def __init__(
        self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant"
    ) -> None:
        super().__init__(
            padding=_padding(padding), fill=_fill(fill), padding_mode=_padding_mode(padding_mode)
        )


class FiveCrop(Step):
    """Four corners and the middle: a sample of shape 5 x channels x height x width."""

    def __init__(self, size: Size) -> None:
        super().__init__(size=_both_sides(size))


class TenCrop(Step):
    """The pictures of `FiveCrop`, and the same of the flipped image."""

    def __init__(self, size: Size, vertical_flip: bool = False) -> None:
        super().__init__(size=_both_sides(size), vertical_flip=bool(vertical_flip))

    def to_dict(self) -> dict[str, Any]:
        """The step as C++ knows it."""
        return {"step": "FiveCrop", "ten": True, **self._given}


class RandomHorizontalFlip(Step):
    """Left and right swapped with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=float(p))


class RandomVerticalFlip(Step):
    """Top and bottom swapped with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=float(p))


class RandomRotation(Step):
    """Turned counter-clockwise by a random angle: a range of degrees, or one number for both
    directions. `center` is x, y."""

    def __init__(
        self,
        degrees: Range,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__(
            degrees=_range("degrees", degrees),
            interpolation=_interpolation(interpolation),
            expand=bool(expand),
            center=None if center is None else _numbers("center", center, 2),
            fill=_fill(fill),
        )


class RandomAffine(Step):
    """Turned, shifted, scaled and sheared at random.

    Args:
        degrees: A range, or one number for both directions.
        translate: The largest shifts along x and y, as shares of width and height.
        scale: A range of factors.
        shear: Degrees along x: a number for both directions, or a range; four numbers are two
            ranges, along x and along y.
        interpolation: "nearest", "bilinear" or "bicubic".
        fill: The colour of what lies outside.
        center: x, y; the middle of the image if left out.
    """

    def __init__(
        self,
        degrees: Range,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Range | None = None,
        interpolation: Any = "nearest",
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        if shear is None:
            shears = None
        elif isinstance(shear, int | float) or len(shear) == 2:
            shears = [*_range("shear", shear), 0.0, 0.0]
        else:
            shears = _numbers("shear", shear, 4)
        super().__init__(
            degrees=_range("degrees", degrees),
            translate=None if translate is None else _numbers("translate", translate, 2),
            scale=None if scale is None else _numbers("scale", scale, 2),
            shear=shears,
            interpolation=_interpolation(interpolation),
            fill=_fill(fill),
            center=None if center is None else _numbers("center", center, 2),
        )


class RandomPerspective(Step):
    """Seen from a random angle, with probability p."""

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = "bilinear",
        fill: Any = 0,
    ) -> None:
        super().__init__(
            distortion_scale=float(distortion_scale),
            p=float(p),
            interpolation=_interpolation(interpolation),
            fill=_fill(fill),
        )


class ColorJitter(Step):
    """Random brightness, contrast, saturation and hue, in random order.

    Each of the first three is a number x, for factors from max(0, 1 - x) to 1 + x, or a range of
    factors. Hue is a number x, for shifts from -x to x, or a range of shifts; 1 is a whole turn.
    """

    def __init__(
        self,
        brightness: Range = 0,
        contrast: Range = 0,
        saturation: Range = 0,
        hue: Range = 0,
    ) -> None:
        given = {}
        for name, value in (
            ("brightness", brightness),
            ("contrast", contrast),
            ("saturation", saturation),
        ):
            if isinstance(value, int | float):
                if value < 0:
                    raise ValueError(f"{name} is {value}: give a number from 0 on, or two")
                value = (max(0.0, 1.0 - value), 1.0 + value)
            given[name] = _numbers(name, value, 2)
        hues = _range("hue", hue)
        if any(hues):
            given["hue"] = hues
        super().__init__(**given)


class Grayscale(Step):
    """Grey, in one channel or in three equal ones."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__(num_output_channels=num_output_channels)


class RandomGrayscale(Step):
    """Grey with probability p; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=float(p))


class RandomInvert(Step):
    """Colours inverted with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=float(p))


class RandomPosterize(Step):
    """Only the first `bits` bits of each channel kept, with probability p."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(bits=bits, p=float(p))


class RandomSolarize(Step):
    """Values from the threshold on inverted, with probability p."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(threshold=float(threshold), p=float(p))


class RandomAdjustSharpness(Step):
    """Sharper (a factor above 1) or smoother (below 1) with probability p."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(sharpness_factor=float(sharpness_factor), p=float(p))


class RandomAutocontrast(Step):
    """Each channel stretched to all values, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=float(p))


class RandomEqualize(Step):
    """The values of each channel made equally frequent, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=float(p))


class GaussianBlur(Step):
    """Blurred by a gaussian of random sigma; `kernel_size` is odd, along x and along y."""

    def __init__(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> None:
        sides = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
        sigmas = [sigma, sigma] if isinstance(sigma, int | float) else sigma
        super().__init__(
            kernel_size=sides * 2 if len(sides) == 1 else sides, sigma=_numbers("sigma", sigmas, 2)
        )


class RandomErasing(Step):
    """A random box overwritten, with probability p.

    Before `Normalize` and `ToDtype` the value is of 8 bits, after them it is a float of the batch.

    Args:
        p: The probability.
        scale: The range of the box's share of the area.
        ratio: The range of its height divided by its width.
        value: One number, one for each channel, or "random" for normal noise, which needs floats.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | str | Sequence[float] = 0,
        inplace: bool = False,
    ) -> None:
        del inplace  # there is no other place
        given: dict[str, Any] = {
            "p": float(p),
            "scale": _numbers("scale", scale, 2),
            "ratio": _numbers("ratio", ratio, 2),
        }
        if isinstance(value, str):
            if value != "random":
                raise ValueError(f"value is {value!r}: use numbers or 'random'")
            given["noise"] = True
        else:
            colour = [value] if isinstance(value, int | float) else list(value)
            given["value"] = _numbers("value", colour * 3 if len(colour) == 1 else colour, 3)
        super().__init__(**given)


class RandAugment(Step):
    """`num_ops` random operations, one after another, all of one magnitude."""

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = "nearest",
        fill: Any = None,
    ) -> None:
        if not 0 <= magnitude < num_magnitude_bins or num_magnitude_bins < 2:
            raise ValueError(
                f"magnitude must be from 0 to num_magnitude_bins - 1, but is {magnitude} of "
                f"{num_magnitude_bins}"
            )
        super().__init__(
            num_ops=num_ops,
            magnitude=magnitude,
            num_magnitude_bins=num_magnitude_bins,
            interpolation=_interpolation(interpolation),
            fill=_fill(fill),
        )

    def to_dict(self) -> dict[str, Any]:
        """The step as C++ knows it."""
        policies = tables.rand_augment(
            self._given["num_magnitude_bins"], self._given["magnitude"], self._first_generation
        )
        return self._augment(policies, times=self._given["num_ops"])


class TrivialAugmentWide(Step):
    """One random operation of random magnitude."""

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None
    ) -> None:
        if num_magnitude_bins < 2:
            raise ValueError(f"num_magnitude_bins must be 2 or more, but is {num_magnitude_bins}")
        super().__init__(
            num_magnitude_bins=num_magnitude_bins,
            interpolation=_interpolation(interpolation),
            fill=_fill(fill),
        )

    def to_dict(self) -> dict[str, Any]:
        """The step as C++ knows it."""
        bins = self._given["num_magnitude_bins"]
        return self._augment(tables.trivial_augment(bins, self._first_generation))


class AutoAugment(Step):
    """A random pair of operations of a learned policy: "imagenet", "cifar10" or "svhn"."""

    def __init__(
        self, policy: Any = "imagenet", interpolation: Any = "nearest", fill: Any = None
    ) -> None:
        name = str(getattr(policy, "value", policy))
        if name not in tables.POLICIES:
            raise ValueError(f"policy is {policy!r}: use {', '.join(map(repr, tables.POLICIES))}")
        super().__init__(policy=name, interpolation=_interpolation(interpolation), fill=_fill(fill))

    def to_dict(self) -> dict[str, Any]:
        """The step as C++ knows it."""
        return self._augment(tables.auto_augment(self._given["policy"], self._first_generation))


class RandomApply(Step):
    """All of the transforms with probability p, or none."""

    def __init__(self, transforms: Sequence[Step | Compose], p: float = 0.5) -> None:
        self.transforms = Compose(transforms).transforms
        super().__init__(transforms=[step.to_dict() for step in self.transforms], p=float(p))

    def __repr__(self) -> str:
        return f"RandomApply({self.transforms!r}, p={self._given['p']})"


class RandomChoice(Step):
    """One of the transforms; `p` are their weights, equal ones if left out."""

    def __init__(
        self, transforms: Sequence[Step | Compose], p: Sequence[float] | None = None
    ) -> None:
        self.transforms = [Compose([transform]) for transform in transforms]
        super().__init__(
            transforms=[[step.to_dict() for step in chain.transforms] for chain in self.transforms],
            p=[1.0] * len(self.transforms) if p is None else _numbers("p", p, len(self.transforms)),
        )

    def __repr__(self) -> str:
        return f"RandomChoice({self.transforms!r}, p={self._given['p']})"


class RandomOrder(Step):
    """All of the transforms, in random order."""

    def __init__(self, transforms: Sequence[Step | Compose]) -> None:
        self.transforms = [Compose([transform]) for transform in transforms]
        super().__init__(
            transforms=[[step.to_dict() for step in chain.transforms] for chain in self.transforms]
        )

    def __repr__(self) -> str:
        return f"RandomOrder({self.transforms!r})"


class Normalize(Step):
    """To floats in [0, 1], then (x - mean) / std, channel by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        del inplace  # there is no other place
        three = [list(v) * 3 if len(v) == 1 else v for v in (mean, std)]
        super().__init__(mean=_numbers("mean", three[0], 3), std=_numbers("std", three[1], 3))


class ToDtype(Step):
    """The type of the batch: uint8, float32, float16 or bfloat16 (torch only), or what `Decode`
    gives.

    Args:
        dtype: Its name, or torch's or numpy's object for it.
        scale: Whether floats lie in [0, 1]; otherwise they are 0 to 255. After `Normalize` it makes
            no difference. Before it, `Normalize` gets the values as they are here.
        reciprocal: Multiply by 1 / 255, as torchvision's v2.ToDtype does, instead of dividing by
            255, as its ToTensor does; the last bit of a float32 may differ.
    """

    def __init__(self, dtype: Any, scale: bool = False, reciprocal: bool = False) -> None:
        given = {"dtype": _dtype(dtype, (*_FILE_TYPES, "bfloat16")), "scale": bool(scale)}
        if reciprocal:
            given["reciprocal"] = True
        super().__init__(**given)


class ToLayout(Step):
    """ "CHW", "HWC", or "channels_last": torch sees CHW, the memory holds HWC."""

    def __init__(self, layout: str) -> None:
        name = layout.lower()
        if name not in ("chw", "hwc", "channels_last"):
            raise ValueError(f"layout is {layout!r}: use 'CHW', 'HWC' or 'channels_last'")
        self.channels_last = name == "channels_last"
        given: dict[str, Any] = {"layout": "hwc" if self.channels_last else name}
        if self.channels_last:
            given["channels_last"] = True
        super().__init__(**given)

    def __repr__(self) -> str:
        layout = "channels_last" if self.channels_last else self._given["layout"].upper()
        return f"ToLayout({layout!r})"
