# SPDX-License-Identifier: Apache-2.0
"""Lightning's Fabric: a loader that a state was loaded into goes on in its own epoch.

Fabric's wrapper of a loader counts its iterations from 0, after a restart too, and sets the
sampler's epoch to that number. A loader of foreload counts epochs itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foreload.loader.dataloader import DataLoader

_MODULES = ("lightning.fabric.wrappers", "lightning_fabric.wrappers")


def lead_past_counting(own: type[DataLoader]) -> None:
    """Let Fabric set the epoch that a loader of this class has, if the program uses Fabric."""
    for name in _MODULES:
        module: Any = sys.modules.get(name)
        set_epoch = getattr(module, "_set_sampler_epoch", None)
        if set_epoch is not None and not hasattr(set_epoch, "_by_foreload"):
            module._set_sampler_epoch = _with_own_epoch(set_epoch, own)


def _with_own_epoch(set_epoch: Any, own: type[DataLoader]) -> Any:
    def set_sampler_epoch(dataloader: Any, epoch: int) -> None:
        if isinstance(dataloader, own):
            epoch = dataloader._iteration.upcoming.epoch
        set_epoch(dataloader, epoch)

    set_sampler_epoch._by_foreload = True  # type: ignore[attr-defined]
    return set_sampler_epoch
