// SPDX-License-Identifier: Apache-2.0
//
// What the UCX module exports.
#include "foreload/peers/border.h"
#include "foreload/peers/ucx/crypto.h"
#include "foreload/peers/ucx/library.h"
#include "foreload/peers/ucx/ucx_transport.h"

namespace foreload::ucx {
namespace {

Result<void> open(const TransportSettings& settings) {
  FORELOAD_CHECK(open_crypto());
  return open_library(settings.ucx, settings.ucx_package);
}

}  // namespace
}  // namespace foreload::ucx

extern "C" __attribute__((visibility("default")))
const foreload_component foreload_transport_component{
    FORELOAD_BORDER,
    sizeof(foreload_component),
    FORELOAD_VERSION,
    foreload::border::open_libraries<foreload::ucx::open>,
    foreload::border::make_transport<foreload::ucx::UcxTransport::make>,
    nullptr};
