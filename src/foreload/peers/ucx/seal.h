// SPDX-License-Identifier: Apache-2.0
//
// The keyed tags of the UCX transport: AES-128-GMAC from OpenSSL, under a key for one direction
// between two ranks of one run. The key is derived (HMAC-SHA-256) from the secret of the job, both
// ranks and a random number of each; frames are counted, and the count is the tag's nonce. So a
// frame of another job, run, pair or direction has no valid tag, and one that comes a second time
// is known by its count. GMAC rather than SipHash because payloads are tagged too: it is several
// times as fast. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "foreload/base/result.h"
#include "foreload/peers/transport.h"

namespace foreload::ucx {

using Tag = std::array<std::byte, 16>;
using RunNonce = std::array<std::byte, 16>;  // drawn by each rank when it starts

Result<RunNonce> draw_nonce();

// HMAC-SHA-256 under the secret of the job, for what is not a message: the address of a rank as it
// goes through the rendezvous.
std::array<std::byte, 32> authenticate(const JobSecret& secret, std::span<const std::byte> bytes);

class Seal {
 public:
  struct End {
    uint32_t rank = 0;
    RunNonce nonce{};
  };
  Seal(const JobSecret& secret, const End& from, const End& to);
  ~Seal();
  Seal(Seal&&) noexcept;
  Seal& operator=(Seal&&) noexcept;

  // Over both pieces, one after the other; where the first ends must be told by the first itself.
  // REQUIRES: a count is used for one pair of pieces only.
  Tag tag(uint64_t count, std::span<const std::byte> first, std::span<const std::byte> second);
  bool matches(uint64_t count, std::span<const std::byte> first, std::span<const std::byte> second,
               const Tag& tag);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace foreload::ucx
