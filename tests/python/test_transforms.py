# SPDX-License-Identifier: Apache-2.0
"""foreload.transforms: chains as data, and torchvision's objects translated."""

import numpy as np
import pytest

from foreload import transforms as t


def vision(name: str, **attributes):
    """Stands in for an object of torchvision."""
    made = type(name, (), {"__module__": "torchvision.transforms.transforms"})()
    vars(made).update(attributes)
    return made


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
        t.ColorJitter(hue=0.1)
    with pytest.raises(ValueError, match="antialias"):
        t.Resize(3, antialias=False)
    with pytest.raises(ValueError, match="CenterCrop"):
        t.Compose([t.Normalize([0.5] * 3, [0.5] * 3), t.CenterCrop(3)]).compile()
    with pytest.raises(TypeError, match="not a step"):
        t.Compose([len])


def test_torchvision_is_translated():
    chain = vision(
        "Compose",
        transforms=[
            vision(
                "RandomResizedCrop",
                size=(224, 224),
                scale=(0.08, 1.0),
                ratio=(3 / 4, 4 / 3),
                interpolation=type("Mode", (), {"value": "bilinear"})(),
                antialias=True,
            ),
            vision("RandomHorizontalFlip", p=0.5),
            vision("ColorJitter", brightness=(0.6, 1.4), contrast=None, saturation=None, hue=None),
            vision("ToTensor"),
            vision("Normalize", mean=[0.5] * 3, std=[0.2] * 3),
        ],
    )
    translated = t.from_torchvision(chain)
    assert translated == t.Compose(
        [
            t.RandomResizedCrop(224),
            t.RandomHorizontalFlip(),
            t.ColorJitter(brightness=(0.6, 1.4)),
            t.ToDtype("float32", scale=True),
            t.ToLayout("CHW"),
            t.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    assert translated.compile().dtype == "float32"


def test_what_cannot_be_translated_is_named():
    with pytest.raises(ValueError, match="GaussianBlur"):
        t.from_torchvision(vision("Compose", transforms=[vision("GaussianBlur", sigma=1)]))
    with pytest.raises(ValueError, match="not a transform of torchvision"):
        t.from_torchvision(vision("Compose", transforms=[len]))
