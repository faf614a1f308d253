# SPDX-License-Identifier: Apache-2.0
"""SPDL: ffmpeg decodes, crops, scales and flips in threads, numpy normalises."""

import math
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

SCALE = (1 / (255 * np.array(contest.STD))).astype(np.float32)
SHIFT = (-np.array(contest.MEAN) / np.array(contest.STD)).astype(np.float32)


def filters():
    """A crop by torchvision's rule; ffmpeg puts the image's own width and height in."""
    area = random.uniform(*contest.SCALE)
    ratio = math.exp(random.uniform(math.log(contest.RATIO[0]), math.log(contest.RATIO[1])))
    width = f"min(iw\\,sqrt(iw*ih*{area * ratio}))"
    height = f"min(ih\\,sqrt(iw*ih*{area / ratio}))"
    steps = [
        f"crop=w={width}:h={height}:x=(iw-ow)*{random.random()}:y=(ih-oh)*{random.random()}",
        f"scale=w={contest.SIDE}:h={contest.SIDE}:flags=bilinear",
        "format=pix_fmts=rgb24",
    ]
    if random.random() < 0.5:
        steps.insert(1, "hflip")
    return ",".join(steps)


def decode(path):
    packets = spdl.io.demux_image(path)
    return spdl.io.decode_packets(packets, filter_desc=filters())


def to_batch(frames):
    pixels = np.asarray(spdl.io.to_numpy(spdl.io.convert_frames(frames)))
    batch = np.empty((len(pixels), 3, contest.SIDE, contest.SIDE), np.float32)
    for channel in range(3):
        np.multiply(pixels[..., channel], SCALE[channel], out=batch[:, channel])
        batch[:, channel] += SHIFT[channel]
    return batch


def make(options):
    paths, _ = contest.class_files(options.folder)

    def epoch(number):
        order = list(paths)
        random.Random(options.seed + number).shuffle(order)
        pipeline = (
            PipelineBuilder()
            .add_source(order)
            .pipe(decode, concurrency=options.workers)
            .aggregate(options.batch_size)
            .pipe(to_batch)
            .add_sink(3)
            .build(num_threads=options.workers + 1)
        )
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


if __name__ == "__main__":
    contest.compete(make)
