// SPDX-License-Identifier: Apache-2.0
//
// A data set of a hundred small files in two classes, whose every delivered byte is checked.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/loader/loader.h"
#include "foreload/stores/shaped.h"

namespace foreload {

class LoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "foreload-loader-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    std::mt19937_64 random(1);
    for (int i = 0; i < 100; ++i) {
      std::string bytes(1 + random() % 20'000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      write_file(i, bytes);
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path file(uint64_t sample) const {
    return root_ / "data" / (sample < 50 ? "cat" : "dog") / fmt_name(sample);
  }
  static std::string fmt_name(uint64_t sample) {
    std::string digits = std::to_string(sample);
    return std::string(5 - digits.size(), '0') + digits + ".jpg";
  }
  void write_file(uint64_t sample, const std::string& bytes) {
    std::filesystem::create_directories(file(sample).parent_path());
    std::ofstream(file(sample), std::ios::binary) << bytes;
    contents_[sample] = bytes;
  }

  LoaderSettings settings(uint64_t epochs = 3) const {
    LoaderSettings settings;
    settings.dataset = root_ / "data";
    settings.extensions = image_extensions_;
    settings.epochs = epochs;
    settings.batching.batch_size = 8;
    settings.staging = 1 << 20;
    settings.objective = Objective::traffic;  // what is read from the source is counted
    return settings;
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const auto& [sample, bytes] : contents_) sum += bytes.size();
    return sum;
  }
  static std::unique_ptr<Loader> open(LoaderSettings settings) {
    auto loader = Loader::open(std::move(settings));
    if (!loader) {
      ADD_FAILURE() << loader.error().message;
      return nullptr;
    }
    return std::move(*loader);
  }
  void expect_bytes(const Batch& batch) const {
    for (size_t i = 0; i < batch.samples.size(); ++i) {
      const std::string& expected = contents_.at(batch.samples[i]);
      ASSERT_EQ(batch.bytes[i].size(), expected.size()) << "sample " << batch.samples[i];
      ASSERT_EQ(std::memcmp(batch.bytes[i].data(), expected.data(), expected.size()), 0)
          << "sample " << batch.samples[i];
    }
  }
  // One epoch, checked; returns the samples in order.
  std::vector<uint64_t> epoch(Loader& loader) const {
    std::vector<uint64_t> samples;
    while (true) {
      auto batch = loader.next();
      if (!batch) {
        ADD_FAILURE() << batch.error().message;
        return samples;
      }
      if (!*batch) return samples;
      expect_bytes(**batch);
      samples.insert(samples.end(), (*batch)->samples.begin(), (*batch)->samples.end());
    }
  }
  static std::vector<uint64_t> list(const Plan& plan, uint64_t epoch) {
    const auto order = std::move(*plan.order().epoch(epoch));
    std::vector<uint64_t> ids(plan.sharding(epoch).per_rank());
    read_list(*order, plan.sharding(epoch), 0, 0, ids);
    return ids;
  }
  void run_all(Loader& loader, uint64_t epochs) const {
    for (uint64_t e = 0; e < epochs; ++e) EXPECT_EQ(epoch(loader), list(loader.plan(), e));
  }
  static std::function<std::unique_ptr<Source>(
      std::function<std::unique_ptr<Source>(Source::Answered)>, Source::Answered)>
  shaped(Shape shape) {
    return [shape](auto make, Source::Answered answered) {
      return shape_source(make, shape, std::move(answered));
    };
  }

  std::filesystem::path root_;
  std::map<uint64_t, std::string> contents_;
  std::vector<std::string> image_extensions_{".jpg"};
};

}  // namespace foreload
