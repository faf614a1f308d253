// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "foreload/base/cpu_features.h"
#include "foreload/base/hash_kernels.h"

namespace foreload {
namespace {

constexpr hash_kernels::Kernels kPortable{
    [](const void* data, size_t size) -> uint64_t { return XXH3_64bits(data, size); },
    [](void* state, const void* data, size_t size) {
      XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, size);
    }};

// The fastest this machine has.
const hash_kernels::Kernels& kernels() {
#ifdef FORELOAD_HASH_AVX2
  if (cpu_features().avx2) return hash_kernels::avx2();
#endif
  return kPortable;
}

}  // namespace

uint64_t checksum64(std::span<const std::byte> bytes) {
  return kernels().checksum(bytes.data(), bytes.size());
}

struct Checksum64::State {
  XXH3_state_t xxh;
};

Checksum64::Checksum64() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}
Checksum64::~Checksum64() = default;

void Checksum64::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) kernels().update(&state_->xxh, bytes.data(), bytes.size());
}

uint64_t Checksum64::value() const {
  return XXH3_64bits_digest(&state_->xxh);
}

std::string Digest::hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

Digest digest_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

struct Digester::State {
  XXH3_state_t xxh;
};

Digester::Digester() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

Digester& Digester::add_raw(const void* data, size_t size) {
  if (size > 0) XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}

Digest Digester::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace foreload
