// SPDX-License-Identifier: Apache-2.0
//
// Every kind of tier against what all of them promise.
#include "tier_conformance.h"

namespace foreload {
namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TierConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TierTraffic);

}  // namespace
}  // namespace foreload
