# SPDX-License-Identifier: Apache-2.0
"""What is done to an image on its way into the batch, with torchvision's names and defaults.

A transform is data: `Compose([RandomResizedCrop(224), RandomHorizontalFlip(), Normalize(...)])`
says what to do, and C++ compiles it into one pass per image. Without a `ToLayout` images are CHW,
without `Normalize` or `ToDtype` they are uint8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from foreload import _core
from foreload._images import decode_other
from foreload._keywords import suggests_keywords

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = int | Sequence[int]
Range = float | Sequence[float]


class Step:
    """One step: its name and what it was given."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):
            setattr(cls, "__init__", suggests_keywords(cls.__init__))  # noqa: B010 - mypy

    def to_dict(self) -> dict[str, Any]:
        """The step as a dict, as `Compose.to_json` writes it."""
        return {"step": type(self).__name__, **self._given}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Step) and other._given == self._given

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self._given.items())
        return f"{type(self).__name__}({given})"


class Compose:
    """Steps one after another."""

    def __init__(self, transforms: Sequence[Step | Compose]) -> None:
        self.transforms: list[Step] = []
        for entry in transforms:
            if isinstance(entry, Compose):
                self.transforms.extend(entry.transforms)
            elif isinstance(entry, Step):
                self.transforms.append(entry)
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
        """Check the chain and compile it; ValueError names the step that makes no sense."""
        return _core.compile_transform(self.to_json(), decode_other)

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
    """Decode an image: JPEG, PNG, WebP and arrays in .npy files by C++, other formats by Pillow
    where it is installed.

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
    """A random part of the image, of random area and shape, resized."""

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        _antialias(antialias)
        super().__init__(
            size=_both_sides(size),
            scale=_numbers("scale", scale, 2),
            ratio=_numbers("ratio", ratio, 2),
            interpolation=_interpolation(interpolation),
        )


class Resize(Step):
    """Resize to (height, width), or so that the shorter side has the length given."""

    def __init__(
        self,
        size: Size,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        _antialias(antialias)
        one = size if isinstance(size, int) else size[0] if len(size) == 1 else None
        given: dict[str, Any] = {
            "size": _both_sides(size) if one is None else _both_sides(one)[0],
            "interpolation": _interpolation(interpolation),
        }
        if max_size is not None:
            given["max_size"] = max_size
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
        if padding_mode != "constant":
            raise ValueError(f"padding_mode {padding_mode!r} is not available: use 'constant'")
        sides = [padding or 0] if padding is None or isinstance(padding, int) else list(padding)
        if len(sides) not in (1, 2, 4):
            raise ValueError(f"padding must be 1, 2 or 4 numbers of pixels, not {padding!r}")
        colour = [fill] * 3 if isinstance(fill, int | float) else list(fill)
        super().__init__(
            size=_both_sides(size),
            padding=(sides * 4)[:4],
            pad_if_needed=bool(pad_if_needed),
            fill=[int(value) for value in colour],
        )


class RandomHorizontalFlip(Step):
    """Left and right swapped with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=float(p))


class ColorJitter(Step):
    """Random brightness, contrast and saturation, in random order.

    Each is a number x, for factors from max(0, 1 - x) to 1 + x, or a range of factors.
    """

    def __init__(
        self,
        brightness: Range = 0,
        contrast: Range = 0,
        saturation: Range = 0,
        hue: Range = 0,
    ) -> None:
        if hue not in (0, None) and tuple(_numbers("hue", hue, 2)) != (0, 0):
            raise ValueError("hue is not available: leave it out, or use a function as transform")
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
        super().__init__(**given)


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
    """

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__(dtype=_dtype(dtype, (*_FILE_TYPES, "bfloat16")), scale=bool(scale))


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


def imagenet_train(size: Size = 224, dtype: Any = "float32") -> Compose:
    """The usual training transform: random resized crop, flip, normalise."""
    return Compose(
        [
            RandomResizedCrop(size),
            RandomHorizontalFlip(),
            Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ToDtype(dtype, scale=True),
        ]
    )


def imagenet_eval(size: int = 224, resize: int | None = None, dtype: Any = "float32") -> Compose:
    """The usual evaluation transform: shorter side to 256 (for 224), centre crop, normalise."""
    return Compose(
        [
            Resize(resize if resize is not None else round(size * 256 / 224)),
            CenterCrop(size),
            Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ToDtype(dtype, scale=True),
        ]
    )


def _is_torchvision(transform: object) -> bool:
    return type(transform).__module__.partition(".")[0] == "torchvision"


def _pair(entry: Any) -> Any:
    """torchvision's size, as one number where it is one."""
    return entry if isinstance(entry, int) else list(entry)


def _jitter(entry: Any) -> Any:
    return 0 if entry is None else entry


def _translated(transform: Any) -> list[Step]:
    """The steps that do what one of torchvision's objects does."""
    name = type(transform).__name__
    take: Mapping[str, Any] = vars(transform)
    if name == "Compose":
        return [step for entry in transform.transforms for step in _translated(entry)]
    if name == "ToTensor":
        return [ToDtype("float32", scale=True), ToLayout("CHW")]
    if name == "PILToTensor":
        return [ToLayout("CHW")]
    if name in ("ToImage", "ToPILImage", "Identity"):
        return []
    if name == "RandomResizedCrop":
        return [
            RandomResizedCrop(
                _pair(take["size"]),
                take["scale"],
                take["ratio"],
                take["interpolation"],
                take.get("antialias", True),
            )
        ]
    if name == "Resize":
        return [
            Resize(
                _pair(take["size"]),
                take["interpolation"],
                take.get("max_size"),
                take.get("antialias", True),
            )
        ]
    if name == "CenterCrop":
        return [CenterCrop(_pair(take["size"]))]
    if name == "RandomCrop":
        return [
            RandomCrop(
                _pair(take["size"]),
                take["padding"],
                take["pad_if_needed"],
                take["fill"],
                take["padding_mode"],
            )
        ]
    if name == "RandomHorizontalFlip":
        return [RandomHorizontalFlip(take["p"])]
    if name == "ColorJitter":
        entries = (take[key] for key in ("brightness", "contrast", "saturation", "hue"))
        return [ColorJitter(*map(_jitter, entries))]
    if name == "Normalize":
        return [Normalize(take["mean"], take["std"])]
    if name == "ConvertImageDtype":
        return [ToDtype(take["dtype"], scale=True)]
    if name == "ToDtype":
        return [ToDtype(take["dtype"], take.get("scale", False))]
    raise ValueError("foreload.transforms has no such step")


def from_torchvision(transform: object) -> Compose:
    """Translate a transform of torchvision into steps of this module.

    ValueError names the step that cannot be translated and why.
    """
    if isinstance(transform, Compose):
        return transform
    if isinstance(transform, Step):
        return Compose([transform])
    entries = getattr(transform, "transforms", None) if _is_torchvision(transform) else None
    steps: list[Step] = []
    for entry in [transform] if entries is None else entries:
        if not _is_torchvision(entry):
            raise ValueError(
                f"cannot translate {entry!r}: it is not a transform of torchvision; the "
                "DataLoader runs functions of your own as they are, in Python threads"
            )
        try:
            steps.extend(_translated(entry))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"cannot translate torchvision's {type(entry).__name__}: {error}"
            ) from error
    for number in [i for i, step in enumerate(steps) if isinstance(step, ToDtype)][:-1][::-1]:
        del steps[number]  # torchvision may convert twice, the last one counts
    layouts = [i for i, step in enumerate(steps) if isinstance(step, ToLayout)]
    for number in layouts[:-1][::-1]:
        del steps[number]
    return Compose(steps)


def native(transform: object) -> Compose | None:
    """A chain that C++ can run, or None if the transform is a Python function.

    ValueError for a transform of torchvision that cannot be translated.
    """
    if isinstance(transform, Compose | Step) or _is_torchvision(transform):
        return from_torchvision(transform)
    return None
