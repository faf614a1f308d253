# SPDX-License-Identifier: Apache-2.0
"""Who does what is asked for: C++ where it can, Python where it must."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foreload import _core, transforms
from foreload._arguments import one_of
from foreload._collate import HAVE_TORCH
from foreload._warn import warn_caller
from foreload.data.parts import PartsTransform, is_several
from foreload.data.samples import LeafDecoder, Samples
from foreload.device.feed import DeviceFeed
from foreload.python_transforms.sample_maker import SampleMaker


@dataclass(frozen=True)
class Chosen:
    """What C++ does, and what Python does after it."""

    chain: transforms.Compose | None
    function: Callable[..., Any] | None
    python: bool  # Python makes the samples, with or without a function
    unchanged: bool = False  # it gets images as they are stored


@dataclass(frozen=True)
class Work:
    """All that is done to samples, and by whom."""

    chosen: Chosen
    chain: transforms.Compose | None  # of it, what C++ does on the way to a batch
    compiled: _core.CompiledTransform | None
    maker: SampleMaker | None  # where Python makes samples

    @property
    def parts(self) -> PartsTransform | None:
        """What C++ does to samples of several parts."""
        function = self.chosen.function
        return function if isinstance(function, PartsTransform) and self.maker is None else None

    @property
    def native(self) -> bool:
        """Whether C++ decodes."""
        return self.compiled is not None or self.parts is not None

    @property
    def random(self) -> bool:
        """Whether C++ draws random numbers for a sample."""
        parts = self.parts
        return (self.compiled is not None and self.compiled.random) or (
            parts is not None and parts.random
        )


def _refuse_batch_transform(transform: Any) -> None:
    kind = type(transform)
    package = kind.__module__.partition(".")[0]
    if package in ("foreload", "torchvision") and kind.__name__ in ("MixUp", "CutMix"):
        raise ValueError(
            f"{kind.__name__} mixes the samples of a whole batch, and transform= gets them one by "
            f"one: give it as batch_transform={kind.__name__}(...)"
        )


def choose_transform(
    samples: Samples, transform: Any, image_type: str | None, parts_in_cpp: bool = False
) -> Chosen:
    """What is done to the samples: by the argument, else by the data set's own transform.
    `parts_in_cpp`: whether C++ may make samples of several parts."""
    one_of("image_type", image_type or "pil", "pil", "array", "unchanged")
    if samples.parts and is_several(transform):
        parts = PartsTransform(transform, samples.parts)
        decodes = isinstance(samples.decode, LeafDecoder) and samples.decode.decodes
        in_cpp = parts_in_cpp and parts.native and bool(samples.part_names) and not decodes
        return Chosen(None, parts, python=not in_cpp)
    makes_images = samples.decode is None and samples.loader is None
    chosen = samples.transform if transform is None else transform
    if chosen is samples.transform and image_type is None:
        image_type = samples.image_type
    if chosen is None:
        return Chosen(None, None, python=not (makes_images and samples.as_stored))
    _refuse_batch_transform(chosen)
    chain = None
    try:
        chain = transforms.native(chosen)
    except ValueError as error:
        warn_caller(f"{error}; the transform runs as it is, in Python threads, which is slower")
    if chain is not None:
        if samples.parts:
            raise ValueError(
                "samples of several parts need a transform for each: give transform={part: "
                "transform}, or a tuple of transforms, in the shape of what locate() gives"
            )
        if not makes_images:
            raise ValueError(
                "a transform of foreload.transforms needs images, but the data set makes its "
                "samples itself, by decode() or a loader of its own: give a function as transform"
            )
        return Chosen(chain, None, python=False)
    if not callable(chosen):
        raise TypeError(f"transform is {chosen!r}: give foreload.transforms or a function")
    if makes_images and image_type == "array":
        chain = transforms.Compose([transforms.Decode(), transforms.ToLayout("HWC")])
    return Chosen(chain, chosen, python=True, unchanged=image_type == "unchanged")


def compile_chain(
    chosen: Chosen, device: DeviceFeed | None, decoder: str, samples: Samples
) -> tuple[transforms.Compose | None, _core.CompiledTransform | None]:
    """What C++ does, as a chain and compiled. `device` takes over what it can, where images are of
    one size and go there as they are."""
    chain = chosen.chain
    compiled = None if chain is None else chain.compile()
    if device is not None and chain is not None and compiled is not None and compiled.fixed:
        chain = device.take_over(chain)
        compiled = device.decode(decoder, chain.compile(), samples)
    elif decoder != "cpu":
        raise ValueError(
            f"decoder={decoder!r} needs device='cuda' and a transform of foreload.transforms that "
            "gives images of one size, without collate_fn: use decoder='cpu' otherwise"
        )
    if compiled is not None and compiled.dtype == "bfloat16" and not HAVE_TORCH:
        raise ValueError("bfloat16 needs torch, which is not installed: use float16 or float32")
    return chain, compiled


def check_transform(
    chosen: Chosen,
    compiled: _core.CompiledTransform | None,
    samples: Samples,
    given: Mapping[str, Any],
) -> None:
    """Refuse workers that have nothing to do and forms that C++ cannot make, and warn of random
    images in the order of files."""
    if given["form"] != "encoded" and (chosen.python or samples.blobs is not None):
        what = "this transform runs in Python" if chosen.python else "these samples are in memory"
        raise ValueError(
            f"form={given['form']!r} keeps what C++ makes of files, and {what}: leave form out, or "
            "give a folder and a transform of foreload.transforms"
        )
    if given["workers"] == "process" and not chosen.python and not samples.makes_itself:
        raise ValueError(
            "workers='process' is only for a transform that is a Python function: leave it "
            "out, C++ runs this transform in threads"
        )
    unordered = all(given[name] is None for name in ("shuffle", "sampler", "batch_sampler"))
    if compiled is not None and compiled.random and unordered:
        warn_caller(
            "the transform is random, but shuffle is not set, so samples come in the order of "
            "the data set: give shuffle=True for training, or shuffle=False to say so"
        )
