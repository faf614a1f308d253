// SPDX-License-Identifier: Apache-2.0
//
// What a rank tells the others through the rendezvous before they can talk over UCX: the address of
// its worker and the random number it drew, signed with the secret of the job, so that a rendezvous
// that anybody can write to does no harm but fail. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "foreload/base/result.h"
#include "foreload/peers/ucx/seal.h"

namespace foreload::ucx {

struct Announced {
  uint32_t rank = 0;
  RunNonce nonce{};
  std::string address;
};

std::string announcement(const JobSecret& secret, const Announced& own);
// Fails with `invalid` if it was not signed for this rank with this secret.
Result<Announced> read_announcement(const JobSecret& secret, uint32_t rank,
                                    const std::string& text);

}  // namespace foreload::ucx
