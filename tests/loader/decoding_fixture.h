// SPDX-License-Identifier: Apache-2.0
//
// The data set of loader_fixture.h as small pictures, and loaders that decode them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "foreload/decode/steps.h"

#include "loader_fixture.h"
#include "png_file.h"

namespace foreload {

class DecodingTest : public LoaderTest {
 protected:
  void SetUp() override {
    LoaderTest::SetUp();
    for (uint32_t i = 0; i < 100; ++i) write_file(i, png(20 + i % 13, 17 + i % 7, i));
    chain_ = R"([{"step": "RandomResizedCrop", "size": [16, 16]}, {"step": "RandomHorizontalFlip"},
                 {"step": "Normalize", "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}])";
  }
  std::shared_ptr<const Transform> transform() const {
    auto steps = steps_from_json(chain_);
    EXPECT_TRUE(steps) << steps.error().message;
    auto compiled = Transform::compile(std::move(*steps));
    EXPECT_TRUE(compiled) << compiled.error().message;
    return *compiled;
  }
  LoaderSettings decoding(uint64_t epochs, unsigned threads) const {
    LoaderSettings with = settings(epochs);
    with.transform = transform();
    with.staging = 0;
    with.hands = threads;
    with.seed = 7;
    return with;
  }
  // All decoded bytes of all epochs, in order.
  static std::string all_of(LoaderSettings with) {
    const uint64_t epochs = *with.epochs;
    const auto loader = open(std::move(with));
    std::string all;
    for (uint64_t e = 0; e < epochs; ++e) {
      while (true) {
        const auto batch = loader->next();
        if (!batch) {
          ADD_FAILURE() << batch.error().message;
          return all;
        }
        if (!*batch) break;
        EXPECT_TRUE((*batch)->bytes.empty());
        all.append(reinterpret_cast<const char*>((*batch)->decoded.data()),
                   (*batch)->decoded.size());
      }
    }
    return all;
  }

  std::string chain_;
};

}  // namespace foreload
