# SPDX-License-Identifier: Apache-2.0
"""Writes resample_expected.jsonl and transform_expected.jsonl: cases, and digests of what Pillow
makes of them. The committed files were made with Pillow 13.0.0; earlier ones resize tall images in
another order of passes and differ by a grey level here and there.
"""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pillow_reference
from PIL import Image

HERE = Path(__file__).parent
NORMALIZE = {"step": "Normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def digest(data: bytes) -> str:
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def resample_cases() -> list[dict[str, Any]]:
    rng = random.Random(20261115)
    cases = []
    for number in range(240):
        most = 300 if number % 20 == 0 else 48
        width, height = rng.randint(1, most), rng.randint(1, most)
        if number % 40 == 7:
            width, height = rng.choice([(65500, 1), (1, 3000), (9000, 2), (1, 1)])
        out = [rng.randint(1, most // 2 + 1), rng.randint(1, most // 2 + 1)]
        if number % 9 == 0:
            out[0] = width
        if number % 11 == 0:
            out[1] = height
        out[0] = min(out[0], 300)
        if number % 3 == 0:
            box = [0.0, 0.0, width, height]
        else:
            left, top = rng.uniform(0, width - 0.5), rng.uniform(0, height - 0.5)
            box = [left, top, rng.uniform(left + 0.2, width), rng.uniform(top + 0.2, height)]
            digits = 0 if number % 3 == 1 else 3
            box = [round(edge, digits) for edge in box]
            box = [float(np.float32(edge)) for edge in box]
            if not (box[0] < box[2] <= width and box[1] < box[3] <= height):
                box = [0.0, 0.0, width, height]
        cases.append(
            {
                "image": [width, height, rng.choice([1, 3, 3]), number],
                "box": box,
                "size": out,
                "interpolation": rng.choice(["nearest", "bilinear", "bilinear", "bicubic"]),
                "flip": rng.random() < 0.5,
            }
        )
    return cases


def resampled(case: dict[str, Any]) -> bytes:
    image = pillow_reference.make_image(*case["image"])
    how = pillow_reference.FILTERS[case["interpolation"]]
    result = image.resize(tuple(case["size"]), how, box=tuple(case["box"]))
    if case["flip"]:
        result = result.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return result.tobytes()


def chains() -> list[list[dict[str, Any]]]:
    """Chains with one idea each."""
    flip = {"step": "RandomHorizontalFlip"}
    chw = {"step": "ToLayout", "layout": "chw"}
    jitter = {
        "step": "ColorJitter",
        "brightness": [0.6, 1.4],
        "contrast": [0.2, 1.8],
        "saturation": [0.0, 2.0],
    }
    crop = {"step": "RandomResizedCrop", "size": [40, 40]}
    grey = {"step": "Decode", "mode": "grey"}
    shorter = {"step": "Resize", "size": 36}
    return [
        [],
        [grey],
        [crop, flip],
        [crop, flip, NORMALIZE, chw],
        [grey, crop, flip, {"step": "ToDtype", "dtype": "float32"}],
        [{"step": "RandomResizedCrop", "size": [31, 57], "scale": [0.5, 0.9], "ratio": [0.4, 0.6]}],
        [{"step": "RandomResizedCrop", "size": [24, 24], "interpolation": "bicubic"}, flip],
        [{"step": "RandomResizedCrop", "size": [24, 24], "interpolation": "nearest"}, flip],
        [shorter, {"step": "CenterCrop", "size": [32, 32]}, NORMALIZE],
        [
            {"step": "Resize", "size": 50, "interpolation": "bicubic"},
            {"step": "CenterCrop", "size": 45},
        ],
        [
            {"step": "Resize", "size": 51, "interpolation": "nearest"},
            {"step": "CenterCrop", "size": 45},
        ],
        [shorter],
        [{"step": "Resize", "size": 30, "max_size": 40}],
        [{"step": "Resize", "size": [20, 70]}],
        [{"step": "CenterCrop", "size": [70, 33]}],
        [{"step": "CenterCrop", "size": [17, 121]}, flip, shorter],
        [
            {
                "step": "RandomCrop",
                "size": [32, 32],
                "padding": [4, 4, 4, 4],
                "pad_if_needed": True,
            },
            flip,
        ],
        [
            {
                "step": "RandomCrop",
                "size": [64, 50],
                "padding": [1, 9, 30, 2],
                "pad_if_needed": True,
                "fill": [9, 120, 250],
            },
            flip,
            {"step": "CenterCrop", "size": [60, 70]},
        ],
        [shorter, {"step": "RandomCrop", "size": [32, 28], "pad_if_needed": True}, flip, NORMALIZE],
        [crop, jitter, chw],
        [grey, crop, jitter],
        [crop, flip, jitter, NORMALIZE, {"step": "ToDtype", "dtype": "float16"}, chw],
        [crop, jitter, flip, {"step": "CenterCrop", "size": 21}, jitter],
        [flip, {"step": "Resize", "size": [33, 44]}, flip, {"step": "Resize", "size": 22}],
        [crop, NORMALIZE, {"step": "ToDtype", "dtype": "bfloat16"}],
        [crop, {"step": "ToDtype", "dtype": "float16", "scale": False}, chw],
        [crop, {"step": "ToDtype", "dtype": "float32"}, chw],
        [crop, {"step": "ToDtype", "dtype": "float32", "scale": False}, NORMALIZE],
    ]


def transform_cases() -> list[dict[str, Any]]:
    sizes = [[61, 47], [47, 90], [300, 41], [33, 200], [1, 1], [7, 1], [1, 12]]
    cases = []
    for number, chain in enumerate(chains()):
        for at, size in enumerate(sizes):
            channels = 1 if (number + at) % 5 == 4 else 3
            cases.append(
                {
                    "chain": chain,
                    "image": [*size, channels, number * 10 + at],
                    "key": [number * 2**40 + 7, at * 3, 1000 * number + at],
                }
            )
    cases.append({"chain": chains()[3], "image": [487, 424, 3, 5], "key": [0, 0, 0]})
    return cases


def transformed(case: dict[str, Any]) -> tuple[bytes, list[int]]:
    image = pillow_reference.make_image(*case["image"]).convert("RGB")
    array, size = pillow_reference.run(case["chain"], image, tuple(case["key"]))
    return array.tobytes(), list(size)


def main() -> None:
    lines = [json.dumps(case | {"digest": digest(resampled(case))}) for case in resample_cases()]
    (HERE / "resample_expected.jsonl").write_text("\n".join(lines) + "\n")
    lines = []
    for case in transform_cases():
        result, size = transformed(case)
        lines.append(json.dumps(case | {"size": size, "digest": digest(result)}))
    (HERE / "transform_expected.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
