// SPDX-License-Identifier: Apache-2.0
//
// Every kind of tier against what all of them promise.
#include "disk_kinds.h"
#include "memory_kinds.h"
#include "plain_files_kind.h"
#include "tier_conformance.h"

namespace foreload {
namespace {

const auto kKinds = testing::Values(
    memory_kind("OwnMemory", false), memory_kind("SharedMemory", true), disk_kind(true, true),
    disk_kind(true, false), disk_kind(false, true), disk_kind(false, false), plain_files_kind());
const auto kName = [](const auto& kind) { return kind.param.name; };
INSTANTIATE_TEST_SUITE_P(, TierConformance, kKinds, kName);
INSTANTIATE_TEST_SUITE_P(, TierTraffic, kKinds, kName);

}  // namespace
}  // namespace foreload
