# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms as steps of foreload.transforms: exactly, or not at all.

What a step does in torchvision depends on what it gets: a Pillow image, a tensor of 8 bits, or a
tensor of floats. So a chain is followed from the Pillow image on, and each step is translated if
there is a step here that gives the same bits for what it gets. Everything else is a ValueError,
and the transform runs in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from foreload.transforms import augment_tables as tables
from foreload.transforms import steps as t

_MODULES = ("torchvision.transforms", "torchvision.transforms.v2")

# Steps that are done to Pillow images alone, and are the same here with the same arguments.
_SAME: dict[str, tuple[str, ...]] = {
    "Grayscale": ("num_output_channels",),
    "RandomAdjustSharpness": ("sharpness_factor", "p"),
    "RandomAutocontrast": ("p",),
    "RandomEqualize": ("p",),
    "RandomGrayscale": ("p",),
    "RandomPosterize": ("bits", "p"),
    "RandomRotation": ("degrees", "interpolation", "expand", "center", "fill"),
    "RandomSolarize": ("threshold", "p"),
}


def is_torchvision(transform: object) -> bool:
    """Whether it is an object of one of torchvision's own classes, not of a class made from one."""
    return _generation(transform) is not None


def _generation(transform: object) -> int | None:
    """1 for torchvision.transforms, 2 for its v2."""
    kind = type(transform)
    for number, name in enumerate(_MODULES, start=1):
        if getattr(sys.modules.get(name), kind.__name__, None) is kind:
            return number
    return None


def translate(transform: object) -> t.Compose:
    """The chain that does the same; ValueError names the step that has no counterpart, and why."""
    translation = _Translation()
    translation.add(transform)
    chain = t.Compose(translation.finish())
    chain._tv_image = translation.tv_image
    try:
        chain.compile()
    except ValueError as error:
        raise ValueError(f"cannot translate torchvision's transform: {error}") from error
    return chain


def as_tv_image(image: Any) -> Any:
    """The same tensor as torchvision's Image, which a chain with ToImage gives."""
    return sys.modules["torchvision.tv_tensors"].Image(image)


def _check_as_written(transform: Any) -> None:
    """ValueError if calling it runs anything but the code of its class."""
    module: Any = sys.modules["torch.nn.modules.module"]
    if isinstance(transform, module.Module) and (
        transform._forward_hooks
        or transform._forward_pre_hooks
        or module._global_forward_hooks
        or module._global_forward_pre_hooks
    ):
        raise ValueError("it has hooks")
    for name in vars(transform):
        if callable(getattr(type(transform), name, None)):
            raise ValueError(f"it has a method {name} of its own")


def _torch_resizes_bytes(interpolation: str) -> bool:
    """Whether torch resizes tensors of 8 bits without making floats of them, on this CPU."""
    import torch

    if interpolation == "bicubic":
        return True
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


class _Translation:
    """Steps so far, and what an image is after them."""

    def __init__(self) -> None:
        self._form = "pil"  # "pil", "bytes" (a tensor of 8 bits), or "floats"
        self.tv_image = False  # whether a tensor is torchvision's Image
        self._images: list[t.Step] = []
        self._dtype: dict[str, Any] | None = None
        self._normalize: t.Step | None = None
        self._erasures: list[t.Step] = []

    def finish(self) -> list[t.Step]:
        numbers = [] if self._dtype is None else [t.ToDtype(**self._dtype)]
        last = [] if self._normalize is None else [self._normalize]
        return [*self._images, *numbers, *last, *self._erasures]

    def add(self, transform: object) -> None:
        generation = _generation(transform)
        if generation is None:
            raise ValueError(
                f"cannot translate {transform!r}: it is no transform of torchvision; the "
                "DataLoader runs functions of your own as they are, in Python threads"
            )
        name = type(transform).__name__
        named = self._add_same if name in _SAME else getattr(self, f"_add_{name}", None)
        method: Callable[[Any, int], None] | None = named
        try:
            if method is None:
                raise ValueError("there is no step in foreload.transforms that gives the same bits")
            _check_as_written(transform)
            if self.tv_image and generation == 1 and not hasattr(transform, "transforms"):
                raise ValueError("of a v2.ToImage it gives Images or tensors as it happens")
            method(transform, generation)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if str(error).startswith("cannot translate"):
                raise
            raise ValueError(f"cannot translate torchvision's {name}: {error}") from error

    def _add_same(self, given: Any, generation: int) -> None:
        self._need("pil")
        name = type(given).__name__
        arguments = {argument: getattr(given, argument) for argument in _SAME[name]}
        self._images.append(getattr(t, name)(**arguments))

    # Containers.

    def _add_Compose(self, given: Any, generation: int) -> None:
        for entry in given.transforms:
            self.add(entry)

    def _inner(self, entries: Any) -> list[t.Step]:
        """Steps inside of a container, which must leave an image what it is."""
        inner = _Translation()
        inner._form, inner.tv_image = self._form, self.tv_image
        for entry in entries:
            inner.add(entry)
        same = (inner._form, inner.tv_image) == (self._form, self.tv_image)
        if not same or inner._dtype or inner._normalize or inner._erasures:
            raise ValueError("what is in it changes the type of the image")
        if any(isinstance(step, t.Grayscale) for step in inner._images):
            raise ValueError("what is in it may change the number of channels")
        return inner.finish()

    def _add_RandomApply(self, given: Any, generation: int) -> None:
        self._need("pil", "bytes")
        self._images.append(t.RandomApply(self._inner(given.transforms), given.p))

    def _add_RandomChoice(self, given: Any, generation: int) -> None:
        self._need("pil", "bytes")
        chains = [t.Compose(self._inner([entry])) for entry in given.transforms]
        self._images.append(t.RandomChoice(chains, given.p))

    def _add_RandomOrder(self, given: Any, generation: int) -> None:
        self._need("pil", "bytes")
        chains = [t.Compose(self._inner([entry])) for entry in given.transforms]
        self._images.append(t.RandomOrder(chains))

    # Types.

    def _add_Identity(self, given: Any, generation: int) -> None:
        pass

    def _add_ToTensor(self, given: Any, generation: int) -> None:
        import torch

        self._need("pil")
        if torch.get_default_dtype() != torch.float32:
            raise ValueError("it gives torch's default type, which is not float32 here")
        self._form = "floats"
        self._dtype = {"dtype": "float32", "scale": True}

    def _add_PILToTensor(self, given: Any, generation: int) -> None:
        self._need("pil")
        self._form = "bytes"

    def _add_ToImage(self, given: Any, generation: int) -> None:
        if self._form == "pil":
            self._form = "bytes"
        self.tv_image = True

    def _add_ToPureTensor(self, given: Any, generation: int) -> None:
        self._need("bytes", "floats")
        self.tv_image = False

    def _add_ToPILImage(self, given: Any, generation: int) -> None:
        if given.mode is not None:
            raise ValueError("it has a mode")
        self._need("bytes")
        self._form, self.tv_image = "pil", False

    def _add_ToDtype(self, given: Any, generation: int) -> None:
        self._convert(given.dtype, given.scale, reciprocal=True)

    def _add_ConvertImageDtype(self, given: Any, generation: int) -> None:
        self._convert(given.dtype, True, reciprocal=generation == 2)

    def _convert(self, dtype: Any, scale: bool, reciprocal: bool) -> None:
        import torch

        self._need("bytes", "floats")
        kinds = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
        if self._form == "bytes":
            if dtype is torch.uint8:
                return
            self._form = "floats"
            self._dtype = {"dtype": kinds[dtype], "scale": scale}
            if scale and reciprocal:
                self._dtype["reciprocal"] = True
            return
        assert self._dtype is not None
        if dtype not in kinds or self._dtype["dtype"] not in (kinds[dtype], "float32"):
            raise ValueError(f"it makes {dtype} of {self._dtype['dtype']}")
        if kinds[dtype] != "float32" and self._erasures:
            raise ValueError("it comes after RandomErasing")
        self._dtype["dtype"] = kinds[dtype]

    def _add_Normalize(self, given: Any, generation: int) -> None:
        self._need("floats")
        assert self._dtype is not None
        if self._normalize is not None or self._erasures or self._dtype["dtype"] != "float32":
            raise ValueError("it is there twice, or after RandomErasing, or computes in 16 bits")
        self._normalize = t.Normalize(given.mean, given.std)

    # Sizes.

    def _size(self, given: Any) -> Any:
        return given.size if isinstance(given.size, int) else list(given.size)

    def _resizing(self, given: Any, generation: int) -> dict[str, Any]:
        """Interpolation and rule of a resize."""
        self._need("pil", "bytes")
        if self._form == "pil":
            return {"interpolation": given.interpolation}
        name = t._interpolation(given.interpolation)
        by_floats = generation == 1 or not _torch_resizes_bytes(name)
        if name == "nearest" or given.antialias is not True or by_floats:
            raise ValueError("tensors are resized in another way than images")
        return {"interpolation": name, "rule": "torch"}

    def _add_Resize(self, given: Any, generation: int) -> None:
        if given.size is None:
            raise ValueError("it has no size")
        kept = {} if given.max_size is None else {"max_size": given.max_size}
        self._images.append(
            t.Resize(self._size(given), **kept, **self._resizing(given, generation))
        )

    def _add_RandomResizedCrop(self, given: Any, generation: int) -> None:
        self._images.append(
            t.RandomResizedCrop(
                self._size(given), given.scale, given.ratio, **self._resizing(given, generation)
            )
        )

    def _add_CenterCrop(self, given: Any, generation: int) -> None:
        self._need_unshifted()
        self._images.append(t.CenterCrop(self._size(given)))

    def _add_RandomCrop(self, given: Any, generation: int) -> None:
        self._need("pil", "bytes")
        padding = given.padding
        if generation == 2 and padding is not None:  # left, right, top, bottom there
            padding = [padding[0], padding[2], padding[1], padding[3]]
        twice = generation == 1 and padding and given.pad_if_needed
        if given.padding_mode != "constant" and (twice or self._form == "bytes"):
            raise ValueError("its way of padding is another one")
        self._images.append(
            t.RandomCrop(
                self._size(given),
                padding if padding is None or isinstance(padding, int) else list(padding),
                given.pad_if_needed,
                given.fill,
                given.padding_mode,
            )
        )

    def _add_Pad(self, given: Any, generation: int) -> None:
        self._need("pil", "bytes")
        if given.padding_mode != "constant":
            self._need("pil")
        padding = given.padding if isinstance(given.padding, int) else list(given.padding)
        self._images.append(t.Pad(padding, given.fill, given.padding_mode))

    def _add_RandomHorizontalFlip(self, given: Any, generation: int) -> None:
        self._need_unerased()
        self._images.append(t.RandomHorizontalFlip(given.p))

    def _add_RandomVerticalFlip(self, given: Any, generation: int) -> None:
        self._need_unerased()
        self._images.append(t.RandomVerticalFlip(given.p))

    def _add_RandomAffine(self, given: Any, generation: int) -> None:
        self._need("pil")
        step = t.RandomAffine(
            given.degrees,
            given.translate,
            given.scale,
            given.shear,
            given.interpolation,
            given.fill,
            given.center,
        )
        step._first_generation = generation == 1
        self._images.append(step)

    # Colours.

    def _add_ColorJitter(self, given: Any, generation: int) -> None:
        self._need("pil")
        ranges = (given.brightness, given.contrast, given.saturation, given.hue)
        self._images.append(t.ColorJitter(*(0 if entry is None else entry for entry in ranges)))

    def _add_RandomInvert(self, given: Any, generation: int) -> None:
        self._need("pil", "bytes")
        self._images.append(t.RandomInvert(given.p))

    def _add_RandomErasing(self, given: Any, generation: int) -> None:
        self._need("bytes", "floats", *(["pil"] if generation == 2 else []))
        noise = given.value is None or isinstance(given.value, str)
        step = t.RandomErasing(
            given.p, given.scale, given.ratio, "random" if noise else given.value
        )
        if self._form == "floats":
            self._erasures.append(step)
            return
        values = step.to_dict().get("value", [-1])
        if any(value != int(value) or not 0 <= value <= 255 for value in values):
            raise ValueError("its value is none of 8 bits")
        self._images.append(step)

    def _augment(self, step: t.Step, generation: int, bins: int) -> None:
        self._need("pil")
        if not tables.torch_agrees(bins):
            raise ValueError("torch computes other magnitudes on this CPU")
        step._first_generation = generation == 1
        self._images.append(step)

    def _add_RandAugment(self, given: Any, generation: int) -> None:
        step = t.RandAugment(
            given.num_ops,
            given.magnitude,
            given.num_magnitude_bins,
            given.interpolation,
            given.fill,
        )
        self._augment(step, generation, given.num_magnitude_bins)

    def _add_TrivialAugmentWide(self, given: Any, generation: int) -> None:
        step = t.TrivialAugmentWide(given.num_magnitude_bins, given.interpolation, given.fill)
        self._augment(step, generation, given.num_magnitude_bins)

    def _add_AutoAugment(self, given: Any, generation: int) -> None:
        step = t.AutoAugment(given.policy, given.interpolation, given.fill)
        self._augment(step, generation, bins=10)

    # What an image must be.

    def _need(self, *forms: str) -> None:
        if self._form not in forms:
            what = {
                "pil": "an image",
                "bytes": "a tensor of 8 bits",
                "floats": "a tensor of floats",
            }
            raise ValueError(f"of {what[self._form]} it gives other bits than C++ does, or none")

    def _need_unerased(self) -> None:
        if self._erasures:
            raise ValueError("it comes after RandomErasing")

    def _need_unshifted(self) -> None:
        """Padding with 0 is the same before and after numbers are made, unless they are shifted."""
        self._need_unerased()
        if self._normalize is not None:
            raise ValueError("it may pad, and comes after Normalize")
