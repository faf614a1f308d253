# SPDX-License-Identifier: Apache-2.0
"""FFCV on its own format with JPEG inside. It resizes without antialiasing (OpenCV's area method).

`ffcv_loader.py write FOLDER FILE --quality Q` makes the file from a folder of JPEG images.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import numpy as np


def write(folder, file, quality):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Folder:
        paths, labels = contest.class_files(folder)

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            with Image.open(self.paths[index]) as image:
                return image.convert("RGB"), self.labels[index]

    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=quality), "label": IntField()}
    DatasetWriter(file, fields, num_workers=2).from_indexed_dataset(Folder())


def make(options):
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    side = contest.SIDE
    images = [
        RandomResizedCropRGBImageDecoder((side, side), scale=contest.SCALE, ratio=contest.RATIO),
        RandomHorizontalFlip(),
        NormalizeImage(
            255 * np.array(contest.MEAN), 255 * np.array(contest.STD), np.dtype("float32")
        ),
        ToTensor(),
        ToTorchImage(channels_last=False),
    ]
    loader = Loader(
        options.folder,
        batch_size=options.batch_size,
        num_workers=options.workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        seed=options.seed,
        pipelines={"image": images, "label": [IntDecoder(), ToTensor()]},
    )
    return lambda number: (batch[0] for batch in loader)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], int(sys.argv[5]))
    else:
        contest.compete(make)
