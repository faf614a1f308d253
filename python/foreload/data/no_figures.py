# SPDX-License-Identifier: Apache-2.0
"""What `_core.LoaderCore` tells about reading, where Python makes the batches."""


class NoFigures:
    """Base of what stands in the place of the C++ engine and reads no files."""

    def stats_json(self) -> str:
        """Nothing was read."""
        return "{}"

    def start_json(self) -> str:
        """Nothing was opened."""
        return '{"warnings": []}'

    def epoch_json(self) -> str:
        """Nobody waited."""
        return "{}"

    def epoch_figures_json(self) -> str:
        """Nothing was counted."""
        return "{}"

    def run_figures_json(self) -> str:
        """Nothing was counted."""
        return "{}"
