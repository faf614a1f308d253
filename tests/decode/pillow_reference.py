# SPDX-License-Identifier: Apache-2.0
"""What a transform must give, said a second time: with Pillow, and the rules of torchvision's
transforms (version 1, on Pillow images) and of foreload's random draws written down in Python.

Everything is done step by step on whole images, as a training script would, so that nothing is
shared with the one pass that foreload makes of it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
RANDOM_STEPS = {"RandomResizedCrop", "RandomCrop", "RandomHorizontalFlip", "ColorJitter"}
WORD = 0xFFFFFFFF


def philox(key: int, low: int, high: int) -> list[int]:
    """Philox4x32-10."""
    x = [low & WORD, low >> 32, high & WORD, high >> 32]
    k = [key & WORD, key >> 32]
    for _ in range(10):
        a = 0xD2511F53 * x[0]
        b = 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k[0], b & WORD, (a >> 32) ^ x[3] ^ k[1], a & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return x


class StepRandom:
    """The numbers of one random step; the rule is in sample_random.h."""

    def __init__(self, seed: int, epoch: int, position: int, step: int) -> None:
        words = philox(seed, epoch, int.from_bytes(b"foreload", "big"))
        self.key = words[0] << 32 | words[1]
        self.position = position
        self.step = step << 32
        self.used = 0

    def number(self) -> int:
        words = philox(self.key, self.position, self.step + self.used // 2)
        at = self.used % 2 * 2
        self.used += 1
        return words[at] << 32 | words[at + 1]

    def unit(self) -> float:
        return (self.number() >> 11) * 2.0**-53

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.unit()

    def below(self, count: int) -> int:
        return self.number() * count >> 64


def make_image(width: int, height: int, channels: int, seed: int) -> Image.Image:
    """Slopes, edges and noise; pixel_maker.h makes the same image."""
    x = np.arange(width, dtype=np.uint64)[None, :, None]
    y = np.arange(height, dtype=np.uint64)[:, None, None]
    c = np.arange(channels, dtype=np.uint64)[None, None, :]
    noise = (x * 2654435761 + y * 40503 + c * 69069 + seed * 97) & WORD
    noise = (noise ^ (noise >> np.uint64(13))) * 1274126177 & WORD
    noise = (noise ^ (noise >> np.uint64(16))) & 63
    slope = (x * (c + 1) + y * (3 - c)) // 2 % 160
    edge = (x // 9 + y // 6 + c) % 3 // 2 * 90
    pixels = np.minimum(slope + edge + noise - 30 * (noise > 60), 255).astype(np.uint8)
    return Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])


def random_resized_crop_box(
    step: dict[str, Any], width: int, height: int, random: StepRandom
) -> tuple[int, int, int, int]:
    """Left, top, width, height, found as torchvision's get_params finds them."""
    scale = step.get("scale", [0.08, 1.0])
    ratio = step.get("ratio", [3 / 4, 4 / 3])
    for _ in range(10):
        area = width * height * random.uniform(*scale)
        shape = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w = round(math.sqrt(area * shape))
        h = round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            top = random.below(height - h + 1)
            left = random.below(width - w + 1)
            return left, top, w, h
    # torchvision may come to a side of 0 here, of which Pillow makes black or an error.
    w, h = width, height
    if width / height < min(ratio):
        h = max(1, round(width / min(ratio)))
    elif width / height > max(ratio):
        w = max(1, round(height * max(ratio)))
    return (width - w) // 2, (height - h) // 2, w, h


def resized_size(step: dict[str, Any], width: int, height: int) -> tuple[int, int]:
    """Width and height that Resize makes."""
    size = step["size"]
    if isinstance(size, list) and len(size) == 2:
        return size[1], size[0]
    wanted = size[0] if isinstance(size, list) else size
    short, long = min(width, height), max(width, height)
    new_short, new_long = wanted, int(wanted * long / short)
    limit = step.get("max_size")
    if limit is not None and new_long > limit:
        new_short, new_long = int(limit * new_short / new_long), limit
    return (new_short, new_long) if width <= height else (new_long, new_short)


def pad(image: Image.Image, border: tuple[int, ...], fill: list[int]) -> Image.Image:
    color = tuple(fill) if image.mode == "RGB" else fill[0]
    return ImageOps.expand(image, border=border, fill=color)


def center_crop(image: Image.Image, width: int, height: int) -> Image.Image:
    if width > image.width or height > image.height:
        missing_w = max(0, width - image.width)
        missing_h = max(0, height - image.height)
        border = (missing_w // 2, missing_h // 2, (missing_w + 1) // 2, (missing_h + 1) // 2)
        image = pad(image, border, [0, 0, 0])
    top = round((image.height - height) / 2.0)
    left = round((image.width - width) / 2.0)
    return image.crop((left, top, left + width, top + height))


def random_crop(image: Image.Image, step: dict[str, Any], random: StepRandom) -> Image.Image:
    height, width = both(step["size"])
    fill = step.get("fill", [0, 0, 0])
    if any(step.get("padding", [0])):
        image = pad(image, tuple(step["padding"]), fill)
    if step.get("pad_if_needed") and image.width < width:
        image = pad(image, (width - image.width, 0, width - image.width, 0), fill)
    if step.get("pad_if_needed") and image.height < height:
        image = pad(image, (0, height - image.height, 0, height - image.height), fill)
    if image.size == (width, height):
        return image
    top = random.below(image.height - height + 1)
    left = random.below(image.width - width + 1)
    return image.crop((left, top, left + width, top + height))


def color_jitter(image: Image.Image, step: dict[str, Any], random: StepRandom) -> Image.Image:
    order = [0, 1, 2]
    for i in range(2):
        other = i + random.below(3 - i)
        order[i], order[other] = order[other], order[i]
    names = ["brightness", "contrast", "saturation"]
    factors = [random.uniform(*step.get(name, [1, 1])) for name in names]
    kinds = [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color]
    for which in order:
        image = kinds[which](image).enhance(factors[which])
    return image


def both(size: int | list[int]) -> tuple[int, int]:
    return (size[0], size[-1]) if isinstance(size, list) else (size, size)


@dataclass
class Output:
    dtype: str = "uint8"
    scale: bool = True
    layout: str = "hwc"
    normalize: dict[str, Any] | None = None


def to_array(image: Image.Image, output: Output) -> np.ndarray:
    pixels = np.asarray(image)
    pixels = pixels.reshape(image.height, image.width, -1)
    if output.normalize or output.dtype != "uint8":
        numbers = pixels.astype(np.float32)
        if output.scale:
            numbers = numbers / np.float32(255)
        if output.normalize:
            channels = pixels.shape[2]
            mean = np.array(output.normalize["mean"], np.float32)[:channels]
            std = np.array(output.normalize["std"], np.float32)[:channels]
            numbers = (numbers - mean) / std
        if output.dtype == "float16":
            pixels = numbers.astype(np.float16)
        elif output.dtype == "bfloat16":
            bits = numbers.view(np.uint32)
            pixels = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        else:
            pixels = numbers
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) if output.layout == "chw" else pixels)


def run(
    chain: list[dict[str, Any]], image: Image.Image, key: tuple[int, int, int]
) -> tuple[np.ndarray, tuple[int, int]]:
    """The array that a chain makes of a decoded image, and its width and height."""
    output = Output()
    random_steps = 0
    for step in chain:
        name = step["step"]
        random = StepRandom(*key, random_steps)
        random_steps += name in RANDOM_STEPS
        how = FILTERS[step.get("interpolation", "bilinear")]
        if name == "Decode":
            image = image.convert("L" if step.get("mode") == "grey" else "RGB")
        elif name == "RandomResizedCrop":
            left, top, w, h = random_resized_crop_box(step, *image.size, random)
            height, width = both(step["size"])
            image = image.crop((left, top, left + w, top + h)).resize((width, height), how)
        elif name == "Resize":
            image = image.resize(resized_size(step, *image.size), how)
        elif name == "CenterCrop":
            height, width = both(step["size"])
            image = center_crop(image, width, height)
        elif name == "RandomCrop":
            image = random_crop(image, step, random)
        elif name == "RandomHorizontalFlip":
            if random.unit() < step.get("p", 0.5):
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        elif name == "ColorJitter":
            image = color_jitter(image, step, random)
        elif name == "Normalize":
            output.normalize = step
            output.dtype = "float32" if output.dtype == "uint8" else output.dtype
        elif name == "ToDtype":
            output.dtype = step.get("dtype", "float32")
            output.scale = step.get("scale", True) or output.normalize is not None
        elif name == "ToLayout":
            output.layout = step.get("layout", "chw")
        else:
            raise ValueError(name)
    return to_array(image, output), image.size
