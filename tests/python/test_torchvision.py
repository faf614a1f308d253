# SPDX-License-Identifier: Apache-2.0
"""foreload.transforms beside torchvision itself: the same bits for the same parameters."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from real_torchvision import torchvision, v1, v2

import foreload
from foreload import transforms as t
from foreload.transforms import augment_tables as tables

F = v2.functional
IMAGES = 40


class Picture:
    """A random image: its file, and as Pillow opens it."""

    def __init__(self, rng: np.random.Generator, most: int = 40, least: int = 1) -> None:
        mode = "L" if rng.random() < 0.25 else "RGB"
        width, height = (int(side) for side in rng.integers(least, most, 2))
        shape = (height, width) if mode == "L" else (height, width, 3)
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        if rng.random() < 0.5:  # smooth, of few colours
            small = Image.fromarray(pixels).resize((3, 2), Image.Resampling.BOX)
            pixels = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))
        self.image = Image.fromarray(pixels)
        self.width, self.height = width, height
        self.decode = t.Decode(mode)
        file = io.BytesIO()
        self.image.save(file, "PNG")
        self.file = file.getvalue()

    def ours(self, *steps: Any, position: int = 0, seed: int = 0) -> np.ndarray:
        chain = t.Compose([self.decode, *steps])
        return chain.compile().run(self.file, seed, 0, position)

    def fill(self, rng: np.random.Generator) -> Any:
        if self.image.mode == "L":
            return int(rng.integers(256))
        return [int(value) for value in rng.integers(0, 256, 3)]


def planar(image: Any) -> np.ndarray:
    """A Pillow image or a tensor as channels x height x width."""
    if isinstance(image, torch.Tensor):
        return image.numpy()
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def pinned(low: float) -> tuple[float, float]:
    return (low, low)


Case = Callable[[Picture, np.random.Generator], tuple[list[Any], Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


@case
def vertical_flip(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    return [t.RandomVerticalFlip(1)], F.vertical_flip(p.image)


@case
def flips_and_crops(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    size = [int(side) for side in rng.integers(1, 50, 2)]
    steps = [t.RandomVerticalFlip(1), t.CenterCrop(size), t.RandomHorizontalFlip(1)]
    return steps, F.horizontal_flip(F.center_crop(F.vertical_flip(p.image), size))


@case
def rotation(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    angle = float(rng.choice([rng.uniform(-400, 400), 90 * rng.integers(-5, 5)]))
    how = str(rng.choice(["nearest", "bilinear", "bicubic"]))
    expand = bool(rng.random() < 0.5)
    center = [float(rng.uniform(-5, 40)), 3.0] if rng.random() < 0.3 else None
    fill = p.fill(rng)
    step = t.RandomRotation(pinned(angle), how, expand, center, fill)
    return [step], F.rotate(p.image, angle, how, expand, center, fill)


@case
def affine(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    angle = float(rng.choice([0.0, rng.uniform(-180, 180)]))
    scale = float(rng.choice([1.0, rng.uniform(0.3, 3)]))
    shear = [float(rng.choice([0.0, rng.uniform(-60, 60)])) for _ in range(2)]
    how = str(rng.choice(["nearest", "bilinear", "bicubic"]))
    center = [float(rng.uniform(-5, 40)), 3.0] if rng.random() < 0.3 else None
    fill = p.fill(rng)
    shears = [*pinned(shear[0]), *pinned(shear[1])]
    step = t.RandomAffine(pinned(angle), None, pinned(scale), shears, how, fill, center)
    return [step], F.affine(p.image, angle, [0, 0], scale, shear, how, fill, center)


@case
def first_affine(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    angle, scale = float(rng.uniform(-180, 180)), float(rng.uniform(0.3, 3))
    shear = float(rng.uniform(-60, 60))
    how = v1.InterpolationMode.BILINEAR
    arguments = (pinned(angle), None, pinned(scale), [*pinned(shear), *pinned(0.0)], how)
    chain = t.from_torchvision(v1.RandomAffine(*arguments))
    made = v1.functional.affine(p.image, angle, [0, 0], scale, [shear, 0.0], how)
    return chain.transforms, made


@case
def far_affine(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    scale = float(rng.uniform(1e-5, 1e-3))  # beyond what fixed point holds
    step = t.RandomAffine(pinned(20.0), None, pinned(scale), fill=7)
    return [step], F.affine(p.image, 20.0, [0, 0], scale, [0, 0], fill=7)


@case
def constant_pad(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    padding = [int(side) for side in rng.integers(0, 9, int(rng.choice([1, 2, 4])))]
    fill = p.fill(rng)
    return [t.Pad(padding, fill)], F.pad(p.image, padding, fill)


@case
def mirror_pad(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    mode = str(rng.choice(["edge", "reflect", "symmetric"]))
    padding = [int(side) for side in rng.integers(0, 60, 4)]
    steps = [t.RandomHorizontalFlip(1), t.Pad(padding, 0, mode), t.RandomVerticalFlip(1)]
    made = F.pad(F.horizontal_flip(p.image), padding, padding_mode=mode)
    return steps, F.vertical_flip(made)


@case
def jitter(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    kind = int(rng.integers(4))
    factor = float(rng.uniform(-0.5, 0.5) if kind == 3 else rng.choice([0, rng.uniform(0, 3)]))
    ranges: list[Any] = [0, 0, 0, 0]
    ranges[kind] = pinned(factor)
    functions = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
    made = p.image if kind == 3 and factor == 0 else functions[kind](p.image, factor)
    return [t.ColorJitter(*ranges)], made


@case
def tables_of_colours(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    bits, threshold = int(rng.integers(1, 9)), float(rng.uniform(-10, 300))
    steps = [t.RandomInvert(1), t.RandomPosterize(bits, 1), t.RandomSolarize(threshold, 1)]
    return steps, F.solarize(F.posterize(F.invert(p.image), bits), threshold)


@case
def histograms(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    if rng.random() < 0.5:
        return [t.RandomAutocontrast(1)], F.autocontrast(p.image)
    return [t.RandomEqualize(1)], F.equalize(p.image)


@case
def sharpness(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    factor = float(rng.choice([0, 1, rng.uniform(0, 4)]))
    steps = [t.RandomAdjustSharpness(factor, 1), t.RandomHorizontalFlip(1)]
    return steps, F.horizontal_flip(F.adjust_sharpness(p.image, factor))


@case
def grey(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    channels = int(rng.choice([1, 3]))
    steps = [t.Grayscale(channels), t.Resize([5, 6])]
    return steps, F.resize(F.to_grayscale(p.image, channels), [5, 6])


@case
def random_grey(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    made = F.to_grayscale(p.image, len(p.image.getbands()))
    return [t.RandomGrayscale(1), t.RandomHorizontalFlip(1)], F.horizontal_flip(made)


@case
def all_in_a_row(p: Picture, rng: np.random.Generator) -> tuple[list[Any], Any]:
    steps = [
        t.Resize([20, 30]),
        t.RandomApply([t.RandomEqualize(1), t.RandomVerticalFlip(1)], p=1),
        t.RandomRotation(pinned(30), expand=True),
        t.RandomChoice([t.RandomInvert(1), t.Resize(3)], p=[1, 0]),
        t.Resize([15, 9]),
        t.RandomOrder([t.RandomHorizontalFlip(1)]),
    ]
    made = F.vertical_flip(F.equalize(F.resize(p.image, [20, 30])))
    made = F.resize(F.invert(F.rotate(made, 30, expand=True)), [15, 9])
    return steps, F.horizontal_flip(made)


@pytest.mark.parametrize("name", CASES)
def test_images_equal_torchvisions_images(name: str) -> None:
    for number in range(IMAGES):
        rng = np.random.default_rng([number, *name.encode()])
        picture = Picture(rng)
        steps, expected = CASES[name](picture, rng)
        np.testing.assert_array_equal(
            picture.ours(*steps), planar(expected), err_msg=f"{number}: {steps}"
        )


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_tensors_are_resized_as_torch_does(how: str) -> None:
    for number in range(IMAGES):
        rng = np.random.default_rng([number, len(how)])
        picture = Picture(rng, most=300)
        size = [int(side) for side in rng.integers(1, 200, 2)]
        if number % 5 == 0:
            size[number % 2] = (picture.height, picture.width)[number % 2]
        for first in (v2.ToImage(), v2.PILToTensor(), v1.PILToTensor()):
            resize = v2.Compose([first, v2.Resize(size, how), v2.CenterCrop(50)])
            chain = t.from_torchvision(resize)
            np.testing.assert_array_equal(
                picture.ours(*chain.transforms), resize(picture.image).numpy()
            )


def test_random_crops_of_tensors_are_resized_as_torch_does() -> None:
    for number in range(IMAGES):
        picture = Picture(np.random.default_rng(number), most=200, least=8)
        ratio = pinned(picture.width / picture.height)  # nothing but the whole image fits
        crop = v2.RandomResizedCrop((31, 17), scale=(1.0, 1.0), ratio=ratio)
        chain = t.from_torchvision(v2.Compose([v2.ToImage(), crop, v2.RandomHorizontalFlip(1)]))
        expected = F.horizontal_flip(F.resize(F.to_image(picture.image), [31, 17]))
        np.testing.assert_array_equal(picture.ours(*chain.transforms), expected.numpy())


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CHAINS = {
    "v1": v1.Compose([v1.Resize(30), v1.CenterCrop(24), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
    "v1 bytes": v1.Compose([v1.Resize((9, 40), antialias=False), v1.PILToTensor()]),
    "v1 converted": v1.Compose(
        [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32), v1.Normalize(MEAN, STD)]
    ),
    "v1 half": v1.Compose([v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)]),
    "v2": v2.Compose(
        [
            v2.ToImage(),
            v2.Resize(30),
            v2.CenterCrop(24),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    ),
    "v2 converted": v2.Compose([v2.ToImage(), v2.ConvertImageDtype(torch.float32)]),
    "v2 unscaled": v2.Compose([v2.PILToTensor(), v2.ToDtype(torch.float32)]),
    "v2 half": v2.Compose([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)]),
    "v2 bfloat16": v2.Compose(
        [
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
            v2.ToDtype(torch.bfloat16),
            v2.ToPureTensor(),
        ]
    ),
    "flipped floats": v1.Compose(
        [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.RandomHorizontalFlip(1)]
    ),
    "back to images": v2.Compose(
        [v2.ToImage(), v2.Resize(20), v2.ToPILImage(), v2.RandomEqualize(1), v2.PILToTensor()]
    ),
    "padded": v2.Compose([v2.RandomCrop((40, 60), [1, 2, 30, 4], fill=9), v2.ToImage()]),
    "grey": v1.Compose([v1.Grayscale(3), v1.RandomSolarize(99, 1), v1.ToTensor()]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_whole_chains_are_translated_exactly(name: str) -> None:
    transform = CHAINS[name]
    for number in range(20):
        picture = Picture(np.random.default_rng([number, *name.encode()]), most=80, least=12)
        if name == "padded":  # the crop is what is there after padding
            image = Image.new("RGB", (60 - 31, 40 - 6), (1, 2, 3))
        else:
            image = picture.image.convert("RGB")
        file = io.BytesIO()
        image.save(file, "PNG")
        compiled = t.from_torchvision(transform).compile()
        ours = compiled.run(file.getvalue(), 0, 0, 0)
        expected = transform(image)
        if expected.dtype == torch.bfloat16:
            expected = expected.view(torch.uint16)
        np.testing.assert_array_equal(ours, expected.numpy())


class OwnCompose(v2.Compose):  # type: ignore[misc, name-defined]
    pass


class OwnResize(v1.Resize):  # type: ignore[misc, name-defined]
    pass


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (v2.GaussianBlur(3), "GaussianBlur"),
        (v2.RandomPerspective(), "RandomPerspective"),
        (v2.ElasticTransform(), "ElasticTransform"),
        (v1.AugMix(), "AugMix"),
        (v1.Lambda(len), "Lambda"),
        (v1.FiveCrop(3), "FiveCrop"),
        (v1.Resize(3, v1.InterpolationMode.LANCZOS), "interpolation"),
        (v1.Compose([v1.ToTensor(), v1.Resize(3)]), "Resize: of a tensor of floats"),
        (v1.Compose([v1.ToTensor(), v1.Normalize(MEAN, STD), v1.CenterCrop(3)]), "Normalize"),
        (v2.Compose([v2.ToImage(), v2.Resize(3, antialias=False)]), "tensors are resized"),
        (v2.Compose([v2.ToImage(), v2.Resize(3, "nearest")]), "tensors are resized"),
        # v1 makes floats of them and rounds: one level off in a tenth of all values.
        (v1.Compose([v1.PILToTensor(), v1.Resize(3)]), "tensors are resized"),
        (v1.Compose([v1.PILToTensor(), v1.RandomResizedCrop(3)]), "tensors are resized"),
        (v2.Compose([v2.ToImage(), v2.ColorJitter(0.3)]), "of a tensor of 8 bits"),
        (v2.Compose([v2.ToImage(), v2.RandomRotation(3)]), "of a tensor of 8 bits"),
        (v2.Compose([v2.ToImage(), v2.RandAugment()]), "of a tensor of 8 bits"),
        (v2.Compose([v2.ToImage(), v2.ToDtype(torch.float64)]), "ToDtype"),
        (
            v2.Compose([v2.ToImage(), v2.ToDtype(torch.float16), v2.Normalize(MEAN, STD)]),
            "16 bits",
        ),
        (v2.Compose([v2.ToImage(), v2.RandomErasing(1, value="random")]), "8 bits"),
        (v2.RandomApply([v2.ToImage()]), "changes the type"),
        (v2.Pad(3, fill={torchvision.tv_tensors.Image: 1}), "Pad"),
        (v1.Compose([v1.Resize(3), OwnResize(3)]), "no transform of torchvision"),
        (OwnResize(3), "no transform of torchvision"),
        (v1.Compose([v1.Resize(3), len]), "no transform of torchvision"),
    ],
    ids=str,
)
def test_what_is_not_exact_is_refused(transform: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        t.from_torchvision(transform)
    assert "\n" not in str(caught.value).replace(repr(transform), "")


def test_classes_made_from_torchvisions_are_functions() -> None:
    assert t.native(OwnCompose([v2.Resize(3)])) is None
    assert t.native(OwnResize(3)) is None
    assert t.native(v2.Resize(3)) is not None


def equal_to_one(made: np.ndarray, candidates: dict[Any, np.ndarray]) -> set[Any]:
    return {
        key
        for key, picture in candidates.items()
        if picture.shape == made.shape and np.array_equal(picture, made)
    }


def test_affine_shifts_are_whole_pixels() -> None:
    for number in range(IMAGES):
        picture = Picture(np.random.default_rng(number), least=8)
        share = (2 / picture.width, 2 / picture.height)
        candidates = {
            (x, y): planar(F.affine(picture.image, 15.0, [x, y], 1.0, [0, 0], "bilinear"))
            for x in range(-2, 3)
            for y in range(-2, 3)
        }
        step = t.RandomAffine(pinned(15.0), share, interpolation="bilinear")
        assert equal_to_one(picture.ours(step, position=number), candidates)


def operations(picture: Image.Image, space: Any, generation: Any, args: dict[str, Any]) -> Any:
    """Every operation of a policy on an image, in torchvision: by name, magnitude."""
    made = {}
    for policy in space:
        for operation in policy:
            for magnitude in operation.get("magnitudes") or [0]:
                if operation.get("bins"):
                    side = picture.width if operation["op"] == "TranslateX" else picture.height
                    end = operation["share"] * side
                    magnitude = float(torch.linspace(0.0, end, operation["bins"])[int(magnitude)])
                if operation["op"] == "Solarize":
                    # The tables hold thresholds of 8 bits.
                    made["Solarize", magnitude] = planar(F.solarize(picture, magnitude))
                    continue
                for sign in (1, -1) if operation.get("either_sign") else (1,):
                    made[operation["op"], sign * magnitude] = planar(
                        generation(picture, operation["op"], sign * magnitude, **args)
                    )
    return made


def second(image: Image.Image, op: str, magnitude: float, **args: Any) -> Image.Image:
    return v2.RandAugment()._apply_image_or_video_transform(
        image, op, magnitude, interpolation=v2.InterpolationMode.NEAREST, fill={"others": None}
    )


def first(image: Image.Image, op: str, magnitude: float, **args: Any) -> Image.Image:
    from torchvision.transforms.autoaugment import _apply_op

    return _apply_op(image, op, magnitude, v1.InterpolationMode.NEAREST, None)


@pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])
def test_random_augmentations_are_torchvisions(module: Any) -> None:
    old = module is v1
    picture = Picture(np.random.default_rng(5), least=30)
    apply = first if old else second
    for given, space in (
        (module.RandAugment(num_ops=1, magnitude=7), tables.rand_augment(31, 7, old)),
        (module.TrivialAugmentWide(), tables.trivial_augment(31, old)),
    ):
        candidates = operations(picture.image, space, apply, {})
        chain = t.from_torchvision(given)
        seen = set()
        for position in range(400):
            found = equal_to_one(picture.ours(*chain.transforms, position=position), candidates)
            assert found, position
            seen |= {name for name, _ in found}
        assert seen == {name for name, _ in candidates}


def test_operations_follow_one_another() -> None:
    picture = Picture(np.random.default_rng(6), least=30)
    space = tables.rand_augment(31, 9, False)
    step = t.RandAugment(num_ops=2)
    firsts = operations(picture.image, space, second, {})
    for position in range(60):
        made = picture.ours(step, position=position)
        assert any(
            equal_to_one(made, operations(Image.fromarray(after), space, second, {}))
            for after in (
                one[0] if len(one) == 1 else one.transpose(1, 2, 0) for one in firsts.values()
            )
        )


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_policies_are_torchvisions(policy: str) -> None:
    theirs = v2.AutoAugment(v2.AutoAugmentPolicy(policy))
    space = theirs._AUGMENTATION_SPACE
    ours = tables.auto_augment(policy, False)
    assert len(ours) == len(theirs._policies)
    for pair, expected in zip(ours, theirs._policies, strict=True):
        for operation, (name, p, number) in zip(pair, expected, strict=True):
            assert (operation["op"], operation["p"]) == (name, p)
            magnitudes, signed = space[name]
            assert operation.get("either_sign", False) == signed
            if number is None:
                assert "magnitudes" not in operation
            elif "bins" in operation:
                assert operation["magnitudes"] == [number]
            else:
                value = float(magnitudes(10, 1, 1)[number])
                value = math.ceil(255.0 * value) if name == "Solarize" else value
                assert operation["magnitudes"] == [value]
    picture = Picture(np.random.default_rng(7))
    chain = t.from_torchvision(theirs)
    made = {picture.ours(*chain.transforms, position=n).tobytes() for n in range(50)}
    assert len(made) > 5


def test_magnitudes_are_torchs() -> None:
    for count in (2, 3, 10, 31, 64):
        for start, end in ((0.0, 0.3), (0.0, 0.99), (0.0, 135.0), (255.0, 0.0), (1.0, 0.0)):
            assert tables.linspace(start, end, count) == torch.linspace(start, end, count).tolist()


def test_shifts_by_shares_are_torchs() -> None:
    for side in range(1, 400, 7):
        pixels = np.arange(side, dtype=np.uint8)[None].repeat(2, axis=0)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        for number in (0, 3, 5, 9):
            end = 150.0 / 331.0 * side
            shift = int(float(torch.linspace(0.0, end, 10)[number]))
            operation = {
                "op": "TranslateX",
                "magnitudes": [float(number)],
                "share": 150.0 / 331.0,
                "bins": 10,
            }
            step = t.RandAugment(fill=255)
            step.to_dict = lambda made=operation: {  # type: ignore[method-assign, misc]
                "step": "Augment",
                "policies": [[made]],
                "fill": [255] * 3,
            }
            made = t.Compose([t.Decode("L"), step]).compile().run(file.getvalue(), 0, 0, 0)
            assert (made[0, 0, :shift] == 255).all()
            assert (made[0, 0, shift:] == pixels[0, : side - shift]).all()


def test_erased_boxes_are_torchvisions_boxes() -> None:
    shares, ratios = [], []
    for position in range(300):
        picture = Picture(np.random.default_rng(1), most=41, least=40)
        white = t.RandomSolarize(-1, 0)
        step = t.RandomErasing(1, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=[1.5, -2, 7])
        normal = t.Normalize([0.5] * 3, [0.5] * 3)
        plain = picture.ours(white, normal)
        made = picture.ours(white, normal, step, position=position)
        changed = (made != plain).any(axis=0)
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        value = torch.tensor([1.5, -2, 7])[: len(plain), None, None]
        expected = F.erase(
            torch.from_numpy(plain), rows[0], columns[0], len(rows), len(columns), value
        )
        assert rows[-1] - rows[0] + 1 == len(rows)
        np.testing.assert_array_equal(made, expected.numpy())
        height, width = (side.stop - side.start for side in box)
        shares.append(height * width / 1600)
        ratios.append(height / width)
    assert 0.08 < min(shares) < 0.11
    assert 0.18 < max(shares) < 0.22
    assert min(ratios) < 0.6
    assert max(ratios) > 1.7


def test_erasing_is_translated_before_and_after_numbers_are_made() -> None:
    early = v2.Compose([v2.ToImage(), v2.RandomErasing(1, value=9)])
    late = v1.Compose([v1.ToTensor(), v1.RandomErasing(1, value="random")])
    picture = Picture(np.random.default_rng(0), least=30)
    made = picture.ours(*t.from_torchvision(early).transforms)
    assert made.dtype == np.uint8
    assert (made != planar(picture.image)).any()
    noise = picture.ours(*t.from_torchvision(late).transforms)
    values = noise[(noise * 255 != np.round(noise * 255)) | (noise < 0) | (noise > 1)]
    assert abs(values.mean()) < 0.3
    assert 0.7 < values.std() < 1.3


@pytest.mark.parametrize("vertical", [False, True])
def test_crops_are_torchvisions(vertical: bool) -> None:
    for number in range(IMAGES):
        picture = Picture(np.random.default_rng(number), least=10)
        five = picture.ours(t.FiveCrop((7, 9)))
        ten = picture.ours(t.TenCrop((7, 9), vertical))
        expected = [planar(crop) for crop in F.ten_crop(picture.image, [7, 9], vertical)]
        np.testing.assert_array_equal(five, expected[:5])
        np.testing.assert_array_equal(ten, expected)


def test_blur_is_torchvisions_but_for_rounding() -> None:
    different = total = 0
    for number in range(IMAGES):
        rng = np.random.default_rng(number)
        picture = Picture(rng, least=12)
        kernel = [int(side) for side in rng.choice([1, 3, 5, 9], 2)]
        sigma = float(rng.uniform(0.1, 3))
        made = picture.ours(t.GaussianBlur(kernel, sigma)).astype(int)
        expected = planar(F.gaussian_blur(picture.image, kernel, [sigma, sigma]))
        assert abs(made - expected).max() <= 1
        different += int((made != expected).sum())
        total += made.size
    assert different <= total / 10_000


def test_perspective_takes_corners_to_corners() -> None:
    picture = Picture(np.random.default_rng(3), most=9, least=8)
    candidates = {}
    width, height = picture.width, picture.height
    start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    for drawn in np.ndindex(2, 2, 2, 2, 2, 2, 2, 2):
        end = [
            [drawn[0], drawn[1]],
            [width - 2 + drawn[2], drawn[3]],
            [width - 2 + drawn[4], height - 2 + drawn[5]],
            [drawn[6], height - 2 + drawn[7]],
        ]
        candidates[drawn] = planar(F.perspective(picture.image, start, end, fill=3))
    step = t.RandomPerspective(0.25, p=1, fill=3)  # bounds of 2 x 2 pixels
    for position in range(40):
        assert equal_to_one(picture.ours(step, position=position), candidates)


def test_masks_move_as_their_images_do() -> None:
    rng = np.random.default_rng(0)
    steps = [
        t.ColorJitter(0.5, 0.5, 0.5, 0.5),
        t.RandomApply([t.RandomRotation(40, "bilinear", fill=5)], p=0.5),
        t.RandomResizedCrop(24, scale=(0.3, 1.0), interpolation="nearest"),
        t.RandomHorizontalFlip(),
        t.RandomGrayscale(0.5),
        t.RandomVerticalFlip(),
        t.Normalize(MEAN, STD),
        t.RandomErasing(1.0),
    ]
    # Of an image whose colours no step changes the mask is the image.
    plain = [
        t.RandomApply([t.RandomInvert(0)], p=0.5) if isinstance(step, t.ColorJitter) else step
        for step in steps
        if not isinstance(step, t.Normalize | t.RandomErasing | t.RandomGrayscale)
    ]
    del plain[0]
    for position in range(30):
        pixels = rng.integers(0, 256, (50, 60), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        masks = t.Compose(steps).compile().for_masks(fill=200)
        assert masks.shape == (1, 24, 24)
        assert masks.dtype == "uint8"
        made = masks.run(file.getvalue(), 1, 2, position)
        # The same steps with nearest pixels and this fill, and colours that change nothing.
        same = t.Compose(
            [
                t.Decode("L"),
                t.ColorJitter(),
                t.RandomApply([t.RandomRotation(40, "nearest", fill=200)], p=0.5),
                t.RandomResizedCrop(24, scale=(0.3, 1.0), interpolation="nearest"),
                t.RandomHorizontalFlip(),
                t.RandomGrayscale(0.5),
                t.RandomVerticalFlip(),
            ]
        )
        np.testing.assert_array_equal(made, same.compile().run(file.getvalue(), 1, 2, position))


def test_masks_may_be_arrays() -> None:
    pixels = np.random.default_rng(0).integers(-9, 1 << 20, (30, 40), dtype=np.int32)
    file = io.BytesIO()
    np.save(file, pixels)
    chain = t.Compose([t.RandomEqualize(), t.RandomVerticalFlip(1), t.CenterCrop(20)])
    made = chain.compile().for_masks(dtype="int32").run(file.getvalue(), 0, 0, 0)
    np.testing.assert_array_equal(made[0], pixels[::-1][5:25, 10:30])
    turned = t.Compose([t.RandomRotation(3)]).compile()
    with pytest.raises(ValueError, match="RandomRotation"):
        turned.for_masks(dtype="int32")


@pytest.mark.parametrize("of_classes", [True, False])
def test_mixing_is_torchvisions(of_classes: bool) -> None:
    images = torch.rand(5, 3, 20, 30)
    labels = torch.arange(5) if of_classes else torch.rand(5, 7)
    arguments = {"alpha": 0.4, "num_classes": 7}
    for seed in range(20):
        mixed, made = t.MixUp(**arguments)((images, labels), np.random.default_rng(seed))
        share = float(np.random.default_rng(seed).beta(0.4, 0.4))
        params = {"labels": labels, "batch_size": 5, "lam": share}
        theirs = v2.MixUp(**arguments)
        assert torch.equal(mixed, theirs.transform(images, params))
        assert torch.equal(made, theirs.transform(labels, params))

        mixed, made = t.CutMix(**arguments)((images, labels), np.random.default_rng(seed))
        changed = (mixed != images).any(0).any(0)
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        box = (0, 0, 0, 0)
        if len(rows):
            box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
        left = 1.0 - (box[2] - box[0]) * (box[3] - box[1]) / 600
        params = {"labels": labels, "batch_size": 5, "box": box, "lam_adjusted": left}
        other = v2.CutMix(**arguments)
        assert torch.equal(mixed, other.transform(images, params))
        assert torch.equal(made, other.transform(labels, params))


def test_mixing_without_a_generator_follows_torch() -> None:
    batch = torch.rand(4, 3, 8, 8), torch.arange(4)
    mix = t.MixUp(num_classes=4)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(mix(batch)[0])
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_mixing_says_what_it_needs() -> None:
    rng = np.random.default_rng(0)
    labels = torch.arange(2)
    with pytest.raises(ValueError, match="num_classes"):
        t.MixUp()((torch.rand(2, 3, 4, 4), labels), rng)
    with pytest.raises(ValueError, match="ToDtype"):
        t.MixUp(num_classes=2)((torch.zeros(2, 3, 4, 4, dtype=torch.uint8), labels), rng)
    with pytest.raises(ValueError, match="shapes"):
        t.CutMix(num_classes=2)((torch.rand(3, 4, 4), labels), rng)
    with pytest.raises(ValueError, match="columns"):
        t.CutMix(num_classes=3)((torch.rand(2, 3, 4, 4), torch.rand(2, 2)), rng)
    with pytest.raises(ValueError, match="alpha"):
        t.CutMix(alpha=0)


def hooked(step):
    step.register_forward_hook(lambda module, given, made: made * 0)
    return step


def hooked_before(step):
    step.register_forward_pre_hook(lambda module, given: (given[0].transpose(0),))
    return step


def replaced(step):
    step.forward = lambda image: v1.functional.pil_to_tensor(image) * 0
    return step


@pytest.mark.parametrize(
    "transform",
    [
        hooked(v2.PILToTensor()),
        v1.Compose([hooked_before(v1.CenterCrop(8)), v1.ToTensor()]),
        replaced(v2.PILToTensor()),
        v1.Compose([v1.ToTensor(), hooked(v1.Normalize([0.5], [0.5]))]),
        hooked(v2.Compose([v2.PILToTensor()])),
        v2.Compose([v2.RandomApply([hooked_before(v2.CenterCrop(8))], 1.0), v2.PILToTensor()]),
    ],
)
def test_hooks_and_methods_of_one_s_own_are_not_passed_over(images, transform):
    """They were: C++ did what the class does."""
    folder = torchvision.datasets.ImageFolder(images, v2.Compose([v2.Resize((12, 12)), transform]))
    with pytest.warns(UserWarning, match=r"it has (hooks|a method forward of its own)"):
        loader = foreload.DataLoader(folder, 10, num_workers=1)
    for ours, theirs in zip(loader, torch.utils.data.DataLoader(folder, 10), strict=True):
        assert torch.equal(ours[0], theirs[0])
    loader.close()


def test_hooks_of_all_modules_are_not_passed_over(images):
    folder = torchvision.datasets.ImageFolder(images, v2.PILToTensor())
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *given: None)
    try:
        with pytest.warns(UserWarning, match="it has hooks"):
            foreload.DataLoader(folder, 10, num_workers=1).close()
    finally:
        handle.remove()


@pytest.mark.parametrize("given", [{"batch_size": None}, {"batch_size": 2, "collate_fn": list}])
@pytest.mark.parametrize(
    "steps",
    [
        [v2.ToImage()],
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])],
        [v2.ToImage(), v2.RandomApply([v2.CenterCrop(8)], 1.0)],
        [v2.ToImage(), v2.ToPureTensor()],
        [v2.PILToTensor()],
        [v2.ToImage(), v1.RandomHorizontalFlip(0.0)],
    ],
)
@pytest.mark.filterwarnings("ignore:cannot translate")
def test_single_images_are_of_the_type_that_torchvision_gives(images, steps, given):
    """After ToImage they were plain tensors."""
    folder = torchvision.datasets.ImageFolder(images, v2.Compose(steps))
    loader = foreload.DataLoader(folder, num_workers=1, shuffle=False, **given)
    ours, theirs = next(iter(loader)), next(iter(torch.utils.data.DataLoader(folder, **given)))
    if given["batch_size"] is not None:
        ours, theirs = ours[1], theirs[1]
    assert type(ours[0]) is type(theirs[0])
    assert torch.equal(ours[0], theirs[0])
    loader.close()
    alone = foreload.DataLoader(images, transform=v2.Compose(steps), num_workers=1, shuffle=False)
    assert type(alone.dataset[1][0]) is type(folder[1][0])
    alone.close()
