# SPDX-License-Identifier: Apache-2.0
"""tf.data with its own JPEG decoder; with --no-antialias, resizing as it does by default."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import tensorflow as tf


def add_options(parser):
    parser.add_argument("--no-antialias", action="store_true")


def make(options):
    mean = tf.constant(contest.MEAN)
    std = tf.constant(contest.STD)

    def load(path, label):
        file = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(file),
            bounding_boxes=tf.zeros([1, 0, 4]),
            area_range=contest.SCALE,
            aspect_ratio_range=contest.RATIO,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(file, window, channels=3)
        image = tf.image.resize(
            image, [contest.SIDE, contest.SIDE], antialias=not options.no_antialias
        )
        image = tf.image.random_flip_left_right(image)
        image = (image / 255 - mean) / std
        return tf.transpose(image, [2, 0, 1]), label

    paths, labels = contest.class_files(options.folder)
    data = tf.data.Dataset.from_tensor_slices((paths, labels))
    data = data.shuffle(len(paths), seed=options.seed)
    data = data.map(load, num_parallel_calls=options.workers)
    data = data.batch(options.batch_size).prefetch(2)
    threads = tf.data.Options()
    threads.threading.private_threadpool_size = options.workers
    data = data.with_options(threads)
    return lambda number: (images.numpy() for images, _ in data)


if __name__ == "__main__":
    contest.compete(make, add_options)
