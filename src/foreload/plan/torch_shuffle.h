// SPDX-License-Identifier: Apache-2.0
//
// torch.randperm on the CPU, bit for bit. The generator is MT19937 seeded with the low 32 bits of
// the seed; below kLongShuffle entries the shuffle is a forward Fisher-Yates with 32-bit draws,
// from there on an inside-out one with 64-bit draws, high word first. Draws are reduced with a
// plain remainder, bias included, because the point is to be equal.
//
// std::shuffle is no help here: what it does is unspecified. std::mt19937 would do, but draws three
// times as slowly (docs/performance.md).
#pragma once

#include <cstdint>
#include <span>

namespace foreload {

inline constexpr uint64_t kLongShuffle = UINT32_MAX / 20;

// Fills `out` with torch.randperm(out.size(), generator=Generator().manual_seed(seed)).
// REQUIRES: the ids 0 .. out.size() - 1 fit the element type.
void torch_randperm(uint64_t seed, std::span<uint32_t> out);
void torch_randperm(uint64_t seed, std::span<uint64_t> out);

}  // namespace foreload
