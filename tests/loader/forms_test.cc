// SPDX-License-Identifier: Apache-2.0
//
// Loaders that keep finished samples give the same batches as those that keep files, wherever they
// are kept and whatever happens, and decode no file twice.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "foreload/cache/cache.h"
#include "foreload/decode/form.h"
#include "foreload/loader/settling.h"

#include "../peers/in_process.h"
#include "decoding_fixture.h"

namespace foreload {
namespace {

constexpr uint64_t kFinishedBytes = 16 * 16 * 3 * 4;  // of a sample

class FormsTest : public DecodingTest {
 protected:
  void SetUp() override {
    DecodingTest::SetUp();
    chain_ = R"([{"step": "Resize", "size": [16, 16]},
                 {"step": "Normalize", "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}])";
  }
  LoaderSettings keeping(const std::string& form, uint64_t epochs = 3) const {
    LoaderSettings with = decoding(epochs, 2);
    with.form = form;
    return with;
  }
  LoaderSettings finished(uint64_t epochs = 3) const { return keeping("finished", epochs); }
  // With room for all samples.
  LoaderSettings in_memory(uint64_t epochs = 3) const {
    LoaderSettings with = finished(epochs);
    with.memory = 100 * kFinishedBytes;
    return with;
  }
  LoaderSettings on_disk(uint64_t epochs = 3) const {
    LoaderSettings with = finished(epochs);
    with.disks = {{root_ / "cache", 100 * kFinishedBytes + (4 << 20)}};
    return with;
  }
  // What a loader counted when its epochs were over.
  static EngineStats stats_after(LoaderSettings with, std::string* batches = nullptr,
                                 LoaderStats* all = nullptr) {
    const uint64_t epochs = *with.epochs;
    const auto loader = open(std::move(with));
    for (uint64_t e = 0; e < epochs; ++e) {
      while (true) {
        const auto batch = loader->next();
        if (!batch) {
          ADD_FAILURE() << batch.error().message;
          return {};
        }
        if (!*batch) break;
        if (batches)
          batches->append(reinterpret_cast<const char*>((*batch)->decoded.data()),
                          (*batch)->decoded.size());
      }
    }
    if (all) *all = loader->stats();
    return loader->stats().engine;
  }
  void expect_sample(std::span<const std::byte> given, uint64_t sample) const {
    std::vector<std::byte> expected(kFinishedBytes);
    Scratch scratch;
    ASSERT_TRUE(
        transform()->run(std::as_bytes(std::span(contents_.at(sample))), {}, expected, scratch));
    ASSERT_EQ(given.size(), expected.size());
    ASSERT_EQ(std::memcmp(given.data(), expected.data(), expected.size()), 0)
        << "sample " << sample;
  }
  void expect_samples(const Batch& batch) const {
    for (size_t i = 0; i < batch.samples.size(); ++i)
      expect_sample(batch.decoded.subspan(i * kFinishedBytes, kFinishedBytes), batch.samples[i]);
  }
};

TEST_F(FormsTest, BatchesAreTheSameWhereverSamplesAreKept) {
  const std::string plain = all_of(keeping("encoded"));
  EXPECT_EQ(plain.size(), 300 * kFinishedBytes);
  EXPECT_EQ(all_of(finished()), plain);  // nowhere
  EXPECT_EQ(all_of(in_memory()), plain);
  EXPECT_EQ(all_of(on_disk()), plain);
  LoaderSettings some = on_disk();
  some.disks[0].folder = root_ / "another";
  some.disks[0].bytes = 40 * kFinishedBytes + (4 << 20);
  some.memory = 30 * kFinishedBytes;
  EXPECT_EQ(all_of(some), plain);
  LoaderSettings narrow = in_memory();
  narrow.staging = 8 * 3 * kFinishedBytes;  // about a batch
  narrow.memory /= 3;
  EXPECT_EQ(all_of(narrow), plain);
}

TEST_F(FormsTest, EachFileIsReadAndDecodedOnce) {
  const EngineStats stats = stats_after(in_memory());
  EXPECT_EQ(stats.decoded_samples, 100u);
  EXPECT_EQ(stats.source_samples, 100u);
  EXPECT_EQ(stats.source_bytes, total());  // as the source has them
  EXPECT_EQ(stats.kept_bytes.at(0), 100 * kFinishedBytes);
  EXPECT_GT(stats.decode_seconds, 0);
  uint64_t by_size = 0;
  for (const DecodedSizes& sizes : stats.decoded_sizes) by_size += sizes.bytes;
  EXPECT_EQ(by_size, total());
}

TEST_F(FormsTest, AFormerRunsDiskIsFoundAndNothingIsDecoded) {
  const std::string plain = all_of(keeping("encoded"));
  EXPECT_EQ(all_of(on_disk()), plain);
  std::string batches;
  LoaderStats all;
  const EngineStats warm = stats_after(on_disk(), &batches, &all);
  EXPECT_EQ(batches, plain);
  EXPECT_EQ(warm.decoded_samples, 0u);
  EXPECT_EQ(warm.source_bytes, 0u);
  EXPECT_EQ(all.held_samples, 100u);
  EXPECT_EQ(all.held_bytes, 100 * kFinishedBytes);
}

TEST_F(FormsTest, AnotherChainFindsNothing) {
  all_of(on_disk(1));
  chain_ = R"([{"step": "Resize", "size": [16, 16], "interpolation": "bicubic"},
               {"step": "Normalize", "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}])";
  const std::string plain = all_of(keeping("encoded", 1));
  std::string batches;
  LoaderStats all;
  EXPECT_EQ(stats_after(on_disk(1), &batches, &all).decoded_samples, 100u);
  EXPECT_EQ(batches, plain);
  EXPECT_EQ(all.held_samples, 0u);
}

TEST_F(FormsTest, FilesAndFinishedSamplesDoNotFindEachOther) {
  for (const char* form : {"encoded", "finished"}) {
    LoaderSettings with = on_disk(1);
    with.form = form;
    LoaderStats all;
    EXPECT_EQ(stats_after(with, nullptr, &all).source_bytes, total()) << form;
    EXPECT_EQ(all.held_samples, 0u) << form;
  }
}

TEST_F(FormsTest, TheLoopMayChangeItsBatch) {
  for (LoaderSettings with : {in_memory(2), on_disk(2)}) {
    const auto loader = open(with);
    for (int e = 0; e < 2; ++e) {
      while (true) {
        const auto batch = loader->next();
        ASSERT_TRUE(batch) << batch.error().message;
        if (!*batch) break;
        expect_samples(**batch);
        std::ranges::fill((*batch)->decoded, std::byte{0x55});
      }
    }
  }
}

TEST_F(FormsTest, LoadersOfOneCacheShareFinishedSamples) {
  const auto cache = Cache::make({200 * kFinishedBytes, {}, {}, 0, 1, "segments"});
  LoaderSettings with = finished(1);
  with.cache = cache;
  const auto first = open(with);
  while (*first->next()) continue;
  const auto second = open(with);
  while (*second->next()) continue;
  EXPECT_EQ(second->stats().engine.decoded_samples, 0u);
  EXPECT_EQ(second->stats().engine.others_bytes, 100 * kFinishedBytes);
  with.form = "encoded";
  const auto third = open(with);
  while (*third->next()) continue;
  EXPECT_EQ(third->stats().engine.source_bytes, total());
}

TEST_F(FormsTest, ABadFileIsNamed) {
  write_file(33, "this is no image");
  for (LoaderSettings with : {finished(1), in_memory(1)}) {
    const auto loader = open(with);
    Result<std::optional<Batch>> batch = std::nullopt;
    do batch = loader->next();
    while (batch && *batch);
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().message,
              "cannot decode sample 33 (cat/00033.jpg): not a JPEG, PNG, WebP or GIF image. Check "
              "the file, or set on_error='skip'.");
  }
}

// The places of later epochs wait for the same bad sample.
TEST_F(FormsTest, ABadFileIsSkippedInEveryEpoch) {
  write_file(33, "this is no image");
  LoaderSettings with = in_memory(3);
  with.skip_bad_samples = true;
  const auto loader = open(with);
  for (int epoch = 0; epoch < 3; ++epoch) {
    uint64_t samples = 0;
    while (true) {
      const auto batch = loader->next();
      ASSERT_TRUE(batch) << batch.error().message;
      if (!*batch) break;
      samples += (*batch)->samples.size();
      for (const uint64_t sample : (*batch)->samples) EXPECT_NE(sample, 33u);
      expect_samples(**batch);
    }
    EXPECT_EQ(samples, 100u);
  }
  EXPECT_EQ(loader->stats().engine.skipped_samples, 3u);
  EXPECT_EQ(loader->stats().engine.skipped.at(0), "cat/00033.jpg");
}

TEST_F(FormsTest, AnEmptyFileIsNamed) {
  write_file(33, "");
  const auto loader = open(in_memory(1));
  Result<std::optional<Batch>> batch = std::nullopt;
  do batch = loader->next();
  while (batch && *batch);
  ASSERT_FALSE(batch);
  EXPECT_NE(batch.error().message.find("(cat/00033.jpg): an empty file"), std::string::npos);
}

TEST_F(FormsTest, FetchesAreFinishedSamples) {
  LoaderSettings with = in_memory(1);
  const auto loader = open(with);
  const auto bytes = loader->fetch({3}, /*as_bytes=*/true);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().kind, ErrorKind::invalid);
  EXPECT_NE(bytes.error().message.find("open it with form 'encoded'"), std::string::npos);
  const auto ticket = loader->fetch({99, 3, 3});
  ASSERT_TRUE(ticket);
  ASSERT_TRUE((*ticket)->wait());
  ASSERT_TRUE((*ticket)->answer());
  EXPECT_EQ((*ticket)->answer()->batch.samples, (std::vector<uint64_t>{99, 3, 3}));
  expect_samples((*ticket)->answer()->batch);
  write_file(1, "no image");
  const auto again = open(finished(1));
  const auto bad = again->fetch({0, 1});
  ASSERT_TRUE((*bad)->wait());
  ASSERT_EQ((*bad)->answer()->errors.size(), 1u);
  EXPECT_NE((*bad)->answer()->errors.at(1).message.find("cannot decode sample 1"),
            std::string::npos);
}

TEST_F(FormsTest, SeeksAndFetchesMayComeAtAnyTime) {
  LoaderSettings with = in_memory(3);
  with.memory /= 2;
  const auto loader = open(with);
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const uint64_t epoch = random() % 3;
    const uint64_t start = random() % 12 * 8;
    const auto forgotten = loader->fetch({random() % 100, random() % 100});
    const auto wanted = loader->fetch({random() % 100, random() % 100});
    loader->seek(epoch, start);
    const std::vector<uint64_t> expected = list(loader->plan(), epoch);
    for (uint64_t batches = random() % 3; batches > 0; --batches) {
      const auto batch = loader->next();
      ASSERT_TRUE(batch) << batch.error().message;
      if (!*batch) break;
      ASSERT_EQ((*batch)->samples.front(), expected.at(start + (*batch)->first));
      expect_samples(**batch);
    }
    ASSERT_TRUE((*wanted)->wait());
    ASSERT_TRUE((*wanted)->answer());
    expect_samples((*wanted)->answer()->batch);
  }
}

// Decodes files of a format of its own when it is told to.
class SlowDecoder {
 public:
  OtherDecoder decoder() {
    return [this](std::span<const std::byte>, const DecodeOptions&, PixelBuffer& out) {
      std::unique_lock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return released_; });
      out.reset({8, 8}, 3);
      for (uint32_t y = 0; y < 8; ++y) std::memset(out.row(y), 77, 24);
      return Result<void>();
    };
  }
  void wait_until_begun() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return begun_ > 0; });
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      released_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  bool released_ = false;
};

TEST_F(FormsTest, ASeekLeavesWhatIsBeingMade) {
  SlowDecoder slow;
  write_file(0, "a format of its own");
  LoaderSettings with = in_memory(2);
  with.hands = 4;  // one for what the seek leaves, one for the fetch, and some for the rest
  with.order.name = "sequential";
  with.transform = transform()->with_other_formats(slow.decoder(), "slow");
  const auto loader = open(with);
  const auto fetched = loader->fetch({0, 1});  // waits for the same making, or for one of its own
  slow.wait_until_begun();
  loader->seek(0, 8);
  const auto batch = loader->next();
  ASSERT_TRUE(batch && *batch);
  EXPECT_EQ((*batch)->samples.front(), 8u);
  expect_samples(**batch);
  slow.release();
  ASSERT_TRUE((*fetched)->wait());
  ASSERT_TRUE((*fetched)->answer()->errors.empty());
  const Batch& both = (*fetched)->answer()->batch;
  const auto numbers = reinterpret_cast<const float*>(both.decoded.data());
  EXPECT_FLOAT_EQ(numbers[0], (77 / 255.0f - 0.5f) / 0.2f);
  expect_sample(both.decoded.subspan(kFinishedBytes, kFinishedBytes), 1);
  loader->seek(0, 0);
  const auto first = loader->next();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ(std::memcmp((*first)->decoded.data(), both.decoded.data(), kFinishedBytes), 0);
}

TEST_F(FormsTest, AnEngineEndsWhileSomethingIsBeingMade) {
  SlowDecoder slow;
  write_file(0, "a format of its own");
  LoaderSettings with = in_memory(2);
  with.order.name = "sequential";
  with.transform = transform()->with_other_formats(slow.decoder(), "slow");
  auto loader = open(with);
  slow.wait_until_begun();
  std::thread ending([&loader] { loader.reset(); });
  slow.release();
  ending.join();
}

TEST_F(FormsTest, StagingHasRoomForFilesKeptAndDecodedSamples) {
  const Sizes files = *Sizes::uniform(100, 400'000);
  const Sizes kept = *Sizes::uniform(100, 600'000);
  LoaderSettings with = finished();
  with.batching.batch_size = 256;
  const uint64_t usual = usual_staging(with, kept, &files);
  EXPECT_GT(usual, 3 * 256 * (kept.mean() + kFinishedBytes));
  EXPECT_LT(usual_staging(with, files, nullptr), usual);
}

// A quarter of the usual staging is not for batches; see DecodingTest.
TEST_F(FormsTest, TwoBatchesAreMadeAheadWithTheUsualStaging) {
  for (uint32_t i = 0; i < 100; ++i) write_file(i, png(20, 17, i));
  chain_ = R"([{"step": "Resize", "size": [2048, 2048]},
               {"step": "Normalize", "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}])";
  LoaderSettings with = finished(1);
  with.batching = {1, false};
  const auto loader = open(std::move(with));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (loader->stats().engine.ready_batches < 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(loader->stats().engine.ready_batches, 2u);
}

TEST_F(FormsTest, WhatCannotBeFinishedIsRefused) {
  const auto refusal = [](LoaderSettings with) {
    const auto loader = Loader::open(std::move(with));
    EXPECT_FALSE(loader);
    return loader ? "" : loader.error().message;
  };
  LoaderSettings none = finished();
  none.transform = {};
  EXPECT_NE(refusal(none).find("form 'finished' keeps what a transform gives"), std::string::npos);
  LoaderSettings parts = finished();
  parts.dataset.clear();
  parts.files = {file(0).native(), file(1).native()};
  parts.ranges = {{{0, 0, 10}, {1, 0, 10}}};
  EXPECT_NE(refusal(parts).find("form 'finished' needs samples of one part, and sample 0"),
            std::string::npos)
      << refusal(parts);
  chain_ = R"([{"step": "RandomResizedCrop", "size": [16, 16]}])";
  EXPECT_NE(refusal(finished()).find("which is random"), std::string::npos);
}

// Two ranks in threads of their own; what each counted. Batches are checked sample by sample.
class FormsOfRanks : public FormsTest {
 protected:
  struct Seen {
    uint64_t samples = 0;
    LoaderStats stats;
    std::string error;
  };
  std::vector<Seen> run(const std::vector<LoaderSettings>& all, bool one_host) {
    const auto ranks = static_cast<uint32_t>(all.size());
    InProcessNetwork network(ranks);
    const std::string job = "job" + std::to_string(++jobs_);
    std::vector<Seen> seen(ranks);
    std::atomic<uint32_t> running = ranks;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        LoaderSettings with = all[rank];
        with.rank = rank;
        with.ranks = ranks;
        with.host = one_host ? "host" : "host " + std::to_string(rank);
        JoinSettings join;
        join.timeout = std::chrono::seconds(20);
        join.rendezvous = std::move(*folder_rendezvous(root_ / "meet", job));
        join.connect = [&network, rank](TransportCalls calls) {
          return Result<std::unique_ptr<Transport>>(network.join(rank, std::move(calls)));
        };
        with.join = std::move(join);
        auto loader = Loader::open(with);
        if (!loader) seen[rank].error = loader.error().message;
        for (uint64_t e = 0; loader && e < *with.epochs; ++e) {
          while (true) {
            const auto batch = (*loader)->next();
            if (!batch) seen[rank].error = batch.error().message;
            if (!batch || !*batch) break;
            expect_samples(**batch);
            seen[rank].samples += (*batch)->samples.size();
          }
        }
        if (loader) seen[rank].stats = (*loader)->stats();
        --running;
        while (loader && running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (loader) loader->reset();
      });
    for (std::thread& thread : threads) thread.join();
    return seen;
  }

  int jobs_ = 0;
};

TEST_F(FormsOfRanks, ShareWhatTheyHaveFinished) {
  for (const bool one_host : {false, true}) {
    LoaderSettings with = finished(3);
    with.memory = 60 * kFinishedBytes;  // of each, so that together they hold all
    const auto seen = run({with, with}, one_host);
    uint64_t decoded = 0;
    uint64_t source = 0;
    uint64_t from_other = 0;
    for (const Seen& one : seen) {
      EXPECT_EQ(one.error, "");
      EXPECT_EQ(one.samples, 150u);
      decoded += one.stats.engine.decoded_samples;
      source += one.stats.engine.source_bytes;
      for (const PeerStats& peer : one.stats.engine.peers)
        from_other += peer.bytes + peer.same_host_bytes;
    }
    EXPECT_EQ(decoded, 100u);
    EXPECT_EQ(source, total());
    EXPECT_GT(from_other, 0u);
    EXPECT_EQ(from_other % kFinishedBytes, 0u);
  }
}

TEST_F(FormsOfRanks, WithOtherFormsOrChainsAreRefused) {
  LoaderSettings one = in_memory(1);
  one.join_timeout = std::chrono::seconds(20);
  LoaderSettings other = one;
  other.form = "encoded";
  for (const Seen& seen : run({one, other}, false))
    EXPECT_NE(seen.error.find("keeps samples in another form than rank"), std::string::npos)
        << seen.error;
  chain_ = R"([{"step": "Resize", "size": [16, 16]}, {"step": "ToDtype", "dtype": "float32"}])";
  for (const Seen& seen : run({one, in_memory(1)}, false))
    EXPECT_NE(seen.error.find("keeps samples in another form than rank"), std::string::npos)
        << seen.error;
}

TEST_F(FormsOfRanks, ABadFileIsSkippedByAll) {
  write_file(33, "this is no image");
  LoaderSettings with = in_memory(3);
  with.skip_bad_samples = true;
  for (const Seen& one : run({with, with}, false)) {
    EXPECT_EQ(one.error, "");
    EXPECT_EQ(one.samples, 150u);
  }
}

}  // namespace
}  // namespace foreload
