# SPDX-License-Identifier: Apache-2.0
"""The last steps of a transform, done on the device: 8-bit images travel, numbers are made there.

A quarter (of float32) or half (of bfloat16) as many bytes are decoded into, copied and kept ahead,
and the CPU does not convert anything. The numbers are the ones that the CPU would have made, bit
for bit: an 8-bit channel has 256 values, so whatever is computed is compared with all of them
before it is used.
"""

from __future__ import annotations

from typing import Any

from foreload import transforms


class Finish:
    """(value / divisor - mean) / std in single precision, as the output's type; with `reciprocal`
    value * (1 / divisor) is what mean is taken from."""

    def __init__(
        self,
        divisor: float,
        mean: list[float],
        std: list[float],
        dtype: str,
        channels: int,
        reciprocal: bool = False,
    ) -> None:
        import torch

        self._dtype: Any = getattr(torch, dtype)
        values = torch.arange(256, dtype=torch.float32)
        columns = [torch.tensor(v[:channels], dtype=torch.float32)[:, None] for v in (mean, std)]
        self._reciprocal = reciprocal
        unit = torch.tensor(1.0 / divisor if reciprocal else divisor)
        units = values * unit if reciprocal else values / unit
        self._table = ((units - columns[0]) / columns[1]).to(self._dtype)
        exact = [column.double() for column in columns]
        self._scale = 1.0 / (divisor * exact[1])
        self._bias = -exact[0] / exact[1]
        self._steps: tuple[Any, ...] = (
            unit,
            columns[0].flatten(),
            columns[1].flatten(),
        )
        self._device: Any = None
        self._fused: tuple[Any, Any] | None = None

    def _find_fused(self, device: Any) -> tuple[Any, Any] | None:
        """Factor and summand with which one multiply-add gives the table there, if there are."""
        import torch

        table = self._table.to(device)
        ramp = torch.arange(256, dtype=torch.uint8, device=device).expand(table.shape)
        step = 2.0**-24
        for nudge in (0, 1, -1, 2, -2):
            for lift in (0, 1, -1, 2, -2):
                scale = (self._scale * (1 + nudge * step)).float().to(device)
                bias = (self._bias * (1 + lift * step)).float().to(device)
                made = torch.empty(table.shape, dtype=self._dtype, device=device)
                torch.addcmul(bias, ramp, scale, out=made)
                if torch.equal(made, table):
                    return scale.flatten(), bias.flatten()
        return None

    def prepare(self, device: Any) -> None:
        """Choose how it is computed there, once."""
        if self._device != device:
            self._device = device
            self._fused = self._find_fused(device)
            self._steps = tuple(numbers.to(device) for numbers in self._steps)

    def __call__(self, images: Any, channels_at: int) -> Any:
        """The batch as numbers, on its device's current stream; `channels_at` is a dimension."""
        import torch

        self.prepare(images.device)
        shape = [1] * images.dim()
        shape[channels_at] = -1
        if self._fused is not None:
            scale, bias = (numbers.view(shape) for numbers in self._fused)
            made = torch.empty_like(images, dtype=self._dtype)
            return torch.addcmul(bias, images, scale, out=made)
        # Tensors on the device, because torch multiplies by the reciprocal of a plain number.
        unit, mean, std = self._steps
        floats = images.float()
        units = floats.mul_(unit) if self._reciprocal else floats.div_(unit)
        return units.sub_(mean.view(shape)).div_(std.view(shape)).to(self._dtype)


def split(chain: transforms.Compose) -> tuple[transforms.Compose, Finish | None]:
    """What the CPU does of a chain, which gives 8-bit images then, and what the device does."""
    dtype, divisor = "uint8", 255.0
    mean, std = [0.0] * 3, [1.0] * 3
    channels, normalized, reciprocal = 3, False, False
    kept: list[transforms.Step | transforms.Compose] = []
    for step in chain.transforms:
        given = step.to_dict()
        if isinstance(step, transforms.Normalize):
            mean, std, normalized = given["mean"], given["std"], True
            dtype = "float32" if dtype == "uint8" else dtype
        elif isinstance(step, transforms.ToDtype):
            dtype = given["dtype"]
            if not normalized:
                divisor = 255.0 if given["scale"] else 1.0
                reciprocal = given["scale"] and given.get("reciprocal", False)
        else:
            kept.append(step)
            if isinstance(step, transforms.Decode) and not step.bytes_only:
                return chain, None
            if isinstance(step, transforms.FiveCrop | transforms.TenCrop):
                return chain, None
            if isinstance(step, transforms.RandomErasing) and dtype != "uint8":
                return chain, None  # it writes floats
            if isinstance(step, transforms.Grayscale):
                channels = given["num_output_channels"]
            if isinstance(step, transforms.Decode) and given["mode"] == "grey":
                channels = 1
    if dtype == "uint8":
        return chain, None
    return transforms.Compose(kept), Finish(divisor, mean, std, dtype, channels, reciprocal)
