# SPDX-License-Identifier: Apache-2.0
"""Samples of this process's caches for other processes: `foreload.open_dataset` and its server."""
