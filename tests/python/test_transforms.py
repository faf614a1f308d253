# SPDX-License-Identifier: Apache-2.0
"""foreload.transforms: chains as data. test_torchvision.py compares what they do."""

import io

import numpy as np
import pytest
from real_torchvision import v1

from foreload import transforms as t


def test_presets_compile():
    assert t.imagenet_train(224).compile().shape == (3, 224, 224)
    assert t.imagenet_train().compile().random
    assert not t.imagenet_eval().compile().random
    assert t.imagenet_eval(192, dtype="float16").compile().dtype == "float16"


def test_equal_chains_are_equal_and_say_what_they_are():
    assert t.imagenet_train(224) == t.imagenet_train((224, 224))
    assert t.imagenet_train(224) != t.imagenet_train(192)
    assert hash(t.imagenet_eval()) == hash(t.imagenet_eval())
    assert repr(t.RandomHorizontalFlip()) == "RandomHorizontalFlip(p=0.5)"
    assert t.ToDtype(np.float32) == t.ToDtype("float32")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="hue"):
        t.Compose([t.ColorJitter(hue=0.6)]).compile()
    with pytest.raises(ValueError, match="fill"):
        t.RandomRotation(3, fill=256)
    with pytest.raises(ValueError, match="padding_mode"):
        t.Pad(3, padding_mode="around")
    with pytest.raises(TypeError, match="degrees"):
        t.RandomRotation(degree=3)
    with pytest.raises(ValueError, match="antialias"):
        t.Resize(3, antialias=False)
    with pytest.raises(ValueError, match="CenterCrop"):
        t.Compose([t.Normalize([0.5] * 3, [0.5] * 3), t.CenterCrop(3)]).compile()
    with pytest.raises(TypeError, match="not a step"):
        t.Compose([len])


def test_torchvision_is_translated():
    chain = v1.Compose(
        [
            v1.RandomResizedCrop(224),
            v1.RandomHorizontalFlip(),
            v1.ColorJitter(brightness=0.4),
            v1.ToTensor(),
            v1.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    translated = t.from_torchvision(chain)
    assert translated == t.Compose(
        [
            t.RandomResizedCrop(224),
            t.RandomHorizontalFlip(),
            t.ColorJitter(brightness=(0.6, 1.4)),
            t.ToDtype("float32", scale=True),
            t.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    assert translated.compile().dtype == "float32"


def test_steps_inside_of_others_are_checked():
    with pytest.raises(ValueError, match="Normalize"):
        t.Compose([t.RandomApply([t.Normalize([0.5] * 3, [0.5] * 3)])]).compile()
    with pytest.raises(ValueError, match="num_output_channels=3"):
        t.Compose([t.RandomApply([t.Grayscale()])]).compile()
    with pytest.raises(ValueError, match="FiveCrop"):
        t.Compose([t.FiveCrop(3), t.RandomHorizontalFlip()]).compile()
    assert not t.Compose([t.Resize((4, 4)), t.RandomApply([t.Resize((2, 2))])]).compile().fixed
    both = t.RandomChoice([t.Resize((2, 2)), t.CenterCrop(2)])
    assert t.Compose([both]).compile().shape == (3, 2, 2)
    assert t.Compose([t.FiveCrop(2)]).compile().shape == (5, 3, 2, 2)


@pytest.mark.parametrize("p", [0, 1])
def test_what_is_drawn_does_not_depend_on_what_happened_before(p):
    pixels = np.arange(900, dtype=np.uint8).reshape(30, 30)
    file = io.BytesIO()
    np.save(file, pixels)
    inner = [t.RandomSolarize(0, p=0.5), t.RandomCrop((30, 30)), t.RandomOrder([t.RandomInvert(0)])]
    chains = [
        [t.RandomApply(inner, p=p), t.RandomCrop(8)],
        [t.RandomChoice([t.Compose(inner), t.Compose([])], p=[p, 1 - p]), t.RandomCrop(8)],
        [t.RandomEqualize(0)] * 5 + [t.RandomCrop(8)],
    ]
    for position in range(10):
        made = [
            t.Compose([t.Decode("L"), *steps]).compile().run(file.getvalue(), 3, 0, position)
            for steps in chains
        ]
        # Solarizing turns values round, and moves nothing.
        crops = [np.minimum(one, 255 - one) for one in made]
        np.testing.assert_array_equal(crops[0], crops[2])
        np.testing.assert_array_equal(crops[1], crops[2])


def test_only_images_of_8_bits_change_colours():
    for step in (t.RandomEqualize(), t.RandomRotation(3), t.Pad(1, 0, "edge"), t.RandAugment()):
        with pytest.raises(ValueError, match="8-bit images without alpha"):
            t.Compose([t.Decode(dtype="uint16"), step]).compile()
    assert t.Compose([t.Decode("RGBA"), t.RandomVerticalFlip(), t.Pad(2)]).compile().random
