# SPDX-License-Identifier: Apache-2.0
"""Batches on their way to a GPU: the copies, the steps that are done there, and the images that it
decodes."""
