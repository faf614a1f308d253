# SPDX-License-Identifier: Apache-2.0
"""Samples made by Python functions, in threads or in processes, and batches of them in order."""
