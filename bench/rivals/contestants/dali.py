# SPDX-License-Identifier: Apache-2.0
"""DALI with operators of the CPU only."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import numpy as np
from nvidia.dali import fn, pipeline_def, types


@pipeline_def
def training(folder):
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files")
    images = fn.decoders.image_random_crop(
        files, output_type=types.RGB, random_area=contest.SCALE, random_aspect_ratio=contest.RATIO
    )
    images = fn.resize(
        images, size=(contest.SIDE, contest.SIDE), interp_type=types.INTERP_LINEAR, antialias=True
    )
    images = fn.crop_mirror_normalize(
        images,
        mirror=fn.random.coin_flip(),
        mean=[255 * mean for mean in contest.MEAN],
        std=[255 * std for std in contest.STD],
        dtype=types.FLOAT,
        output_layout="CHW",
    )
    return images, labels


def make(options):
    pipeline = training(
        folder=options.folder,
        seed=options.seed,
        batch_size=options.batch_size,
        num_threads=options.workers,
        device_id=None,
    )
    pipeline.build()
    images = pipeline.epoch_size("files")

    def epoch(number):
        # The reader begins its next epoch inside a batch where the number of images is odd.
        for left in range(images, 0, -options.batch_size):
            batch, _ = pipeline.run()
            yield np.asarray(batch.as_tensor())[:left]

    return epoch


if __name__ == "__main__":
    contest.compete(make)
