# SPDX-License-Identifier: Apache-2.0
"""What a data set can be, and who makes its batches where C++ does not read files: rows, streams,
classes that only have `__getitem__`, samples of several parts."""
