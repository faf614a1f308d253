# SPDX-License-Identifier: Apache-2.0
"""The end of all batches. Worker processes import this, so it imports nothing."""


class LostError(RuntimeError):
    """Nobody can make batches any more: a worker process has died, for instance."""
