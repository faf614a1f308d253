# SPDX-License-Identifier: Apache-2.0
"""torchvision itself, for tests that compare with it. Import what is needed from here:
`from real_torchvision import torchvision, v1, v2`.

Its compiled operators need the torch they were built for, and are not loaded beside another build.
Its Python part, which all transforms are, imports once the operators that it describes are
declared.
"""

from __future__ import annotations

import importlib
import importlib.util

import torch

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def _compiled_part_loads() -> bool:
    found = importlib.util.find_spec("torchvision")
    assert found is not None, "torchvision is not installed: run scripts/setup.sh dev-tools"
    assert found.submodule_search_locations is not None
    try:
        torch.ops.load_library(f"{found.submodule_search_locations[0]}/_C.so")
    except (ImportError, OSError):
        return False
    return True


if not _compiled_part_loads():
    _declared = torch.library.Library("torchvision", "DEF")  # as long as this lives
    for _operator in _OPERATORS:
        _declared.define(_operator)

torchvision = importlib.import_module("torchvision")
v1 = importlib.import_module("torchvision.transforms")
v2 = importlib.import_module("torchvision.transforms.v2")
