# SPDX-License-Identifier: Apache-2.0
"""The C++ engine as Python opens it: budgets, caches that several loaders share, and batches of
bytes."""
