// SPDX-License-Identifier: Apache-2.0
//
// Batches that are decoded on their way: every sample is what the transform gives for its bytes and
// its place in the run, whoever decodes it and wherever its bytes came from.
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "decoding_fixture.h"

namespace foreload {
namespace {

// A quarter of the usual staging is not for batches; the rest must hold two of them, not two less
// some bytes.
TEST_F(DecodingTest, TwoBatchesAreDecodedAheadWithTheUsualStaging) {
  for (uint32_t i = 0; i < 100; ++i) write_file(i, png(20, 17, i));
  chain_ = R"([{"step": "Resize", "size": [2048, 2048]},
               {"step": "Normalize", "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}])";
  LoaderSettings with = decoding(1, 2);
  with.batching = {1, false};
  const auto loader = open(std::move(with));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (loader->stats().engine.ready_batches < 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(loader->stats().engine.ready_batches, 2u);
}

TEST_F(DecodingTest, EverySampleIsWhatTheTransformGives) {
  const auto loader = open(decoding(2, 2));
  const auto chain = transform();
  Scratch scratch;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    uint64_t position = 0;
    while (true) {
      const auto batch = loader->next();
      ASSERT_TRUE(batch) << batch.error().message;
      if (!*batch) break;
      const uint64_t size = chain->form().bytes();
      ASSERT_EQ((*batch)->decoded.size(), (*batch)->samples.size() * size);
      for (size_t i = 0; i < (*batch)->samples.size(); ++i) {
        std::vector<std::byte> expected(size);
        const std::string& file = contents_.at((*batch)->samples[i]);
        ASSERT_TRUE(
            chain->run(std::as_bytes(std::span(file)), {7, epoch, position++}, expected, scratch));
        ASSERT_EQ(std::memcmp(expected.data(), (*batch)->decoded.data() + i * size, size), 0);
      }
    }
    EXPECT_EQ(position, 100u);
  }
  EXPECT_EQ(loader->stats().engine.decoded_samples, 200u);
}

TEST_F(DecodingTest, ThreadsAndCachesChangeNothing) {
  const std::string plain = all_of(decoding(3, 1));
  EXPECT_EQ(all_of(decoding(3, 8)), plain);
  LoaderSettings cached = decoding(3, 2);
  cached.memory = total() / 3;
  cached.disks = {{root_ / "cache", total() + (1 << 20)}};
  EXPECT_EQ(all_of(cached), plain);  // cold
  EXPECT_EQ(all_of(cached), plain);  // warm
}

TEST_F(DecodingTest, ABadImageIsNamed) {
  write_file(33, "this is no image");
  const auto loader = open(decoding(1, 2));
  Result<std::optional<Batch>> batch = std::nullopt;
  do batch = loader->next();
  while (batch && *batch);
  ASSERT_FALSE(batch);
  EXPECT_NE(batch.error().message.find("cannot decode sample 33 (cat/00033.jpg)"),
            std::string::npos)
      << batch.error().message;
}

// With one sample the next epoch reads it again while this one is told that it cannot be decoded.
TEST_F(DecodingTest, WhyIsSaidThoughTheSampleIsReadAgain) {
  std::filesystem::remove_all(root_ / "data");
  write_file(0, "this is no image");
  for (int round = 0; round < 200; ++round) {
    LoaderSettings with = decoding(20, 2);
    with.batching = {1, false};
    const auto batch = open(with)->next();
    ASSERT_FALSE(batch);
    ASSERT_NE(batch.error().message.find("not a JPEG, PNG, WebP or GIF image"), std::string::npos)
        << batch.error().message;
  }
}

TEST_F(DecodingTest, ABadImageIsSkippedAndItsPlaceFilled) {
  write_file(33, "this is no image");
  LoaderSettings with = decoding(2, 2);
  with.skip_bad_samples = true;
  const auto loader = open(with);
  for (int epoch = 0; epoch < 2; ++epoch) {
    uint64_t samples = 0;
    while (true) {
      const auto batch = loader->next();
      ASSERT_TRUE(batch) << batch.error().message;
      if (!*batch) break;
      samples += (*batch)->samples.size();
      for (const uint64_t sample : (*batch)->samples) EXPECT_NE(sample, 33u);
    }
    EXPECT_EQ(samples, 100u);
  }
  EXPECT_EQ(loader->stats().engine.skipped_samples, 2u);
  EXPECT_EQ(loader->stats().engine.skipped.at(0), "cat/00033.jpg");
}

TEST_F(DecodingTest, SkippedSamplesCountWhenTheirBatchIsGiven) {
  write_file(33, "this is no image");
  LoaderSettings with = decoding(2, 2);
  with.skip_bad_samples = true;
  with.order.name = "sequential";
  const auto loader = open(with);
  uint64_t given = 0;
  while (given < 100) {
    EXPECT_EQ(loader->stats().engine.skipped_samples, given > 33 ? 1u : 0u);
    given += (*loader->next())->samples.size();
  }
  // The next epoch is read ahead, its bad sample included.
  while (loader->stats().engine.decoded_samples < 200) std::this_thread::yield();
  EXPECT_EQ(loader->stats().engine.skipped_samples, 1u);
}

TEST_F(DecodingTest, SizesMayDiffer) {
  chain_ = R"([{"step": "Decode"}])";
  const auto loader = open(decoding(1, 2));
  const auto batch = loader->next();
  ASSERT_TRUE(batch && *batch);
  ASSERT_EQ((*batch)->apart.size(), (*batch)->samples.size());
  for (size_t i = 0; i < (*batch)->samples.size(); ++i) {
    const uint64_t sample = (*batch)->samples[i];
    EXPECT_EQ((*batch)->apart[i].form.size, (ImageSize{static_cast<uint32_t>(20 + sample % 13),
                                                       static_cast<uint32_t>(17 + sample % 7)}));
  }
}

TEST_F(DecodingTest, ListsOfASamplerAreReadAsGiven) {
  LoaderSettings with = settings(1);
  with.epochs.reset();
  with.order = with.order.as_given();
  const auto loader = open(with);
  ASSERT_TRUE(loader->give_list({5, 5, 99, 0, 1}, {2, 5}));
  std::vector<std::vector<uint64_t>> batches;
  while (true) {
    const auto batch = loader->next();
    ASSERT_TRUE(batch) << batch.error().message;
    if (!*batch) break;
    expect_bytes(**batch);
    batches.push_back((*batch)->samples);
  }
  EXPECT_EQ(batches, (std::vector<std::vector<uint64_t>>{{5, 5}, {99, 0, 1}}));
  EXPECT_FALSE(loader->give_list({100}));
  EXPECT_FALSE(loader->give_list({1, 2}, {2, 1}));
  EXPECT_FALSE(loader->give_list({1, 2}, {1}));
}

}  // namespace
}  // namespace foreload
