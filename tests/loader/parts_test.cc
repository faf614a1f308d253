// SPDX-License-Identifier: Apache-2.0
//
// Samples of named parts: each part is decoded by its own chain to its own place in the batch, and
// what is wrong with one of them is the sample's.
#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "foreload/decode/steps.h"

#include "loader_fixture.h"
#include "png_file.h"

namespace foreload {
namespace {

constexpr uint64_t kScenes = 40;

std::shared_ptr<const Transform> chain_of(const std::string& json) {
  auto steps = steps_from_json(json);
  EXPECT_TRUE(steps) << steps.error().message;
  auto compiled = Transform::compile(std::move(*steps));
  EXPECT_TRUE(compiled) << compiled.error().message;
  return *compiled;
}

// A picture, its mask, and some bytes of a file that all samples share.
class PartsTest : public LoaderTest {
 protected:
  void SetUp() override {
    LoaderTest::SetUp();
    std::ofstream notes(root_ / "notes", std::ios::binary);
    for (uint32_t i = 0; i < kScenes; ++i) {
      write("picture", i, png(20 + i % 13, 17 + i % 7, i));
      write("mask", i, png(20 + i % 13, 17 + i % 7, 100 + i));
      notes << "note of sample " << 10 + i;
    }
    picture_ = chain_of(R"([{"step": "RandomResizedCrop", "size": [9, 9]},
                            {"step": "RandomHorizontalFlip"},
                            {"step": "Normalize", "mean": [0.5, 0.5, 0.5],
                             "std": [0.2, 0.2, 0.2]}])");
  }
  void write(const std::string& part, uint64_t sample, const std::string& bytes) {
    std::ofstream(path(part, sample), std::ios::binary) << bytes;
    files_[part][sample] = bytes;
  }
  std::string path(const std::string& part, uint64_t sample) const {
    return (root_ / (part + std::to_string(sample))).native();
  }
  static std::string note(uint64_t sample) {
    return "note of sample " + std::to_string(10 + sample);
  }

  LoaderSettings with_parts(uint64_t epochs) const {
    LoaderSettings with = settings(epochs);
    with.dataset.clear();
    with.part_names = {"picture", "mask", "note"};
    for (uint64_t i = 0; i < kScenes; ++i) {
      with.files.push_back(path("picture", i));
      with.files.push_back(path("mask", i));
      const uint64_t length = note(i).size();
      with.ranges.push_back({{2 * i}, {2 * i + 1}, {2 * kScenes, length * i, length}});
    }
    with.files.push_back((root_ / "notes").native());
    with.transform = *SampleTransform::make(parts());
    with.staging = 0;
    with.seed = 7;
    return with;
  }
  // In another order than the index has them.
  std::vector<SampleTransform::Part> parts() const {
    return {{"note", nullptr}, {"picture", picture_}, {"mask", mask(), 1}};
  }
  std::shared_ptr<const Transform> mask() const {
    return *picture_->for_masks(255, PixelType::uint8);
  }
  static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // What the chains give for a sample, one part behind another.
  std::string expected(uint64_t sample, const SampleKey& key) const {
    Scratch scratch;
    std::string all = note(sample);
    for (const auto& [name, chain] : {std::pair{"picture", picture_}, std::pair{"mask", mask()}}) {
      const auto one =
          chain->run(std::as_bytes(std::span(files_.at(name).at(sample))), key, scratch);
      EXPECT_TRUE(one) << one.error().message;
      all += text(one->bytes);
    }
    return all;
  }
  // What a batch has in a place, in the same order.
  static std::string given(const Batch& batch, size_t place) {
    std::string all;
    for (const BatchPart& part : batch.parts) {
      if (!part.bytes.empty()) all += text(part.bytes[place]);
      if (!part.apart.empty()) all += text(part.apart[place].bytes);
      if (!part.decoded.empty()) {
        const uint64_t size = part.form.bytes();
        all += text(part.decoded.subspan(place * size, size));
      }
    }
    return all;
  }
  // All epochs, each sample checked; returns how often each was given.
  std::map<uint64_t, int> read_all(LoaderSettings with) const {
    const uint64_t epochs = *with.epochs;
    const auto loader = open(std::move(with));
    std::map<uint64_t, int> times;
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      uint64_t position = 0;
      while (true) {
        const auto batch = loader->next();
        EXPECT_TRUE(batch) << batch.error().message;
        if (!batch || !*batch) break;
        EXPECT_TRUE((*batch)->bytes.empty() && (*batch)->decoded.empty());
        for (size_t i = 0; i < (*batch)->samples.size(); ++i) {
          const uint64_t sample = (*batch)->samples[i];
          EXPECT_EQ(given(**batch, i), expected(sample, {7, epoch, position++}));
          ++times[sample];
        }
      }
    }
    decoded_ = loader->stats().engine.decoded_samples;
    return times;
  }
  // The error of the first batch that has one.
  static Error error_of(Loader& loader) {
    Result<std::optional<Batch>> batch = std::nullopt;
    do batch = loader.next();
    while (batch && *batch);
    EXPECT_FALSE(batch);
    return batch ? Error{} : batch.error();
  }

  std::shared_ptr<const Transform> picture_;
  std::map<std::string, std::map<uint64_t, std::string>> files_;
  mutable uint64_t decoded_ = 0;
};

TEST_F(PartsTest, EachIsWhatItsChainGivesWhereverItsBytesCameFrom) {
  LoaderSettings with = with_parts(3);
  EXPECT_EQ(read_all(with).size(), kScenes);
  EXPECT_EQ(decoded_, 3 * kScenes);
  with.hands = 8;
  with.memory = 20'000;
  with.disks = {{root_ / "cache", 10 << 20}};
  EXPECT_EQ(read_all(with).size(), kScenes);  // cold
  EXPECT_EQ(read_all(with).size(), kScenes);  // warm
}

TEST_F(PartsTest, SizesMayDiffer) {
  picture_ = chain_of(R"([{"step": "RandomHorizontalFlip"}])");
  EXPECT_EQ(read_all(with_parts(2)).size(), kScenes);
}

TEST_F(PartsTest, ADamagedPartIsNamed) {
  write("mask", 33, "this is no picture");
  const auto loader = open(with_parts(1));
  const Error error = error_of(*loader);
  EXPECT_EQ(error.kind, ErrorKind::corrupt);
  EXPECT_EQ(error.message.find("cannot make sample 33: part 'mask' (" + path("mask", 33) +
                               "), mask of part 'picture' (" + path("picture", 33) + "): "),
            0u)
      << error.message;
}

TEST_F(PartsTest, AMaskOfAnotherSizeIsAnError) {
  write("mask", 33, png(5, 6, 0));
  const auto loader = open(with_parts(1));
  EXPECT_NE(error_of(*loader).message.find("the mask is 5 x 6 pixels (width x height) and its "
                                           "picture 27 x 22"),
            std::string::npos);
}

TEST_F(PartsTest, AGoodSampleTakesThePlaceOfABadOneInAllParts) {
  write("mask", 33, "this is no picture");
  LoaderSettings with = with_parts(1);
  with.skip_bad_samples = true;
  with.order.name = "sequential";
  const auto loader = open(with);
  for (uint64_t first = 0; first < kScenes; first += 8) {
    const auto batch = loader->next();
    ASSERT_TRUE(batch && *batch);
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t sample = first + i == 33 ? 34 : first + i;
      EXPECT_EQ((*batch)->samples[i], sample);
      EXPECT_EQ(given(**batch, i), expected(sample, {7, 0, sample}));
    }
  }
  EXPECT_EQ(loader->stats().engine.skipped_samples, 1u);
}

TEST_F(PartsTest, CanBeFetched) {
  write("mask", 33, "this is no picture");
  LoaderSettings with = with_parts(1);
  with.epochs.reset();
  with.order = with.order.as_given();
  const auto loader = open(with);
  const auto ticket = *loader->fetch({3, 33, 5});
  ASSERT_TRUE(ticket->wait(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  const Fetched& fetched = *ticket->answer();
  EXPECT_EQ(fetched.errors.size(), 1u);
  EXPECT_EQ(fetched.errors.count(1), 1u);
  EXPECT_EQ(given(fetched.batch, 0), expected(3, {7, 0, 3}));
  EXPECT_EQ(given(fetched.batch, 2), expected(5, {7, 0, 5}));
}

TEST_F(PartsTest, NamesThatAreNotThereAreRefused) {
  LoaderSettings with = with_parts(1);
  with.part_names = {"picture", "msk", "note"};
  const auto loader = Loader::open(with);
  ASSERT_FALSE(loader);
  EXPECT_EQ(loader.error().message,
            "cannot decode part 'mask': sample 0 (picture0) has the parts 'msk', 'note', "
            "'picture'; correct the name, or list the data set again (revalidate)");
}

TEST_F(PartsTest, WhatCannotBeMeantIsRefused) {
  EXPECT_FALSE(SampleTransform::make({{"", picture_}}));
  EXPECT_FALSE(SampleTransform::make({{"a", picture_}, {"a", picture_}}));
  EXPECT_FALSE(SampleTransform::make({{"mask", mask(), 1}, {"picture", picture_}}));
  EXPECT_FALSE(SampleTransform::make({{"picture", nullptr}, {"mask", mask(), 0}}));
  EXPECT_FALSE(SampleTransform::make({{"note", nullptr}}));
  LoaderSettings with = with_parts(1);
  with.ranges[5].pop_back();
  EXPECT_FALSE(Loader::open(with));
}

}  // namespace
}  // namespace foreload
