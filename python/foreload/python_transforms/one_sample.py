# SPDX-License-Identifier: Apache-2.0
"""What a loader does to one sample, for those who ask for samples one by one."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from foreload._collate import channels_first, tensor
from foreload.python_transforms.sample_maker import Key, SampleMaker, Task
from foreload.transforms.torchvision_steps import as_tv_image


class OneSample:
    """Makes one sample of its bytes. It can be pickled if its functions can.

    Args:
        chain: What C++ does to the image, if anything.
        maker: What Python does then, if anything.
        target_transform: Of the data set, where Python does nothing.
    """

    def __init__(
        self, chain: Any, maker: SampleMaker | None, target_transform: Callable[[Any], Any] | None
    ) -> None:
        self._chain = chain
        self._compiled = None if chain is None else chain.compile()
        self._maker = maker
        self._target_transform = target_transform

    def key(self, number: int) -> Key:
        """Of the random numbers of a sample that belongs to no epoch."""
        compiled = self._compiled is not None and self._compiled.random
        python = self._maker is not None and self._maker.random
        return (_random_word() if compiled or python else 0), 0, number

    def __call__(self, task: Task) -> Any:
        if self._compiled is not None:
            try:
                image = self._compiled.run(task.data, *task.key)
            except ValueError as error:
                raise ValueError(f"cannot decode {task.name}: {error}") from error
            if self._maker is None:
                image = tensor(image, self._compiled.dtype == "bfloat16")
                image = channels_first(image) if self._chain.channels_last else image
                image = as_tv_image(image) if self._chain._tv_image else image
                return image, self._target(task.label)
            task = task._replace(data=image)
        if self._maker is not None:
            return self._maker(task)
        return bytes(task.data), self._target(task.label)

    def _target(self, label: Any) -> Any:
        return label if self._target_transform is None else self._target_transform(label)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compiled = None if self._chain is None else self._chain.compile()


def _random_word() -> int:
    """From where torchvision's transforms have theirs: torch's global state, which torch's
    DataLoader seeds in each worker; Python's where torch is not used."""
    torch: Any = sys.modules.get("torch")
    return random.getrandbits(62) if torch is None else int(torch.randint(2**62, ()).item())
