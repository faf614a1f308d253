// SPDX-License-Identifier: Apache-2.0
//
// Every kind of tier against what all of them promise.
#include "disk_kinds.h"
#include "tier_conformance.h"

namespace foreload {
namespace {

const auto kKinds = testing::Values(disk_kind(true, true), disk_kind(true, false),
                                    disk_kind(false, true), disk_kind(false, false));
std::string name_of_tier(const testing::TestParamInfo<TierKind>& kind) {
  return kind.param.name;
}
INSTANTIATE_TEST_SUITE_P(Everywhere, TierConformance, kKinds, name_of_tier);
INSTANTIATE_TEST_SUITE_P(Everywhere, TierTraffic, kKinds, name_of_tier);

}  // namespace
}  // namespace foreload
