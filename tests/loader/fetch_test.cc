// SPDX-License-Identifier: Apache-2.0
//
// Random access beside the ordered batches of the same loader, and what may go wrong with it.
#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "loader_fixture.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class LoaderFetch : public LoaderTest {
 protected:
  // No ordered batches.
  LoaderSettings fetches_only() const {
    LoaderSettings with = settings();
    with.epochs.reset();
    with.order = with.order.as_given();
    return with;
  }
  static std::shared_ptr<Ticket> fetch(Loader& loader, std::vector<uint64_t> samples) {
    return *loader.fetch(std::move(samples));
  }
  void expect_samples(const Ticket& ticket, const std::vector<uint64_t>& samples) const {
    ASSERT_TRUE(ticket.wait(Clock::now() + seconds(60)));
    ASSERT_TRUE(ticket.answer()) << ticket.answer().error().message;
    EXPECT_TRUE(ticket.answer()->errors.empty());
    EXPECT_EQ(ticket.answer()->batch.samples, samples);
    expect_bytes(ticket.answer()->batch);
  }
  static LoaderSettings& stuck(LoaderSettings& with) {
    Shape shape;
    shape.stall_share = 1;
    shape.stall = milliseconds(60'000);
    with.wrap_source = shaped(shape);
    return with;
  }
};

TEST_F(LoaderFetch, GivesSamplesInTheOrderAskedFor) {
  const auto loader = open(fetches_only());
  const std::vector<uint64_t> samples{99, 3, 3, 50};
  expect_samples(*fetch(*loader, samples), samples);
  expect_samples(*fetch(*loader, {}), {});
  const auto none = loader->fetch({3, 100});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::invalid);
}

TEST_F(LoaderFetch, KeepsWhatItReadWhereThePlanWantsIt) {
  LoaderSettings with = fetches_only();
  with.memory = total();
  const auto loader = open(with);
  for (int round = 0; round < 3; ++round)
    for (uint64_t sample = 0; sample < 100; ++sample)
      expect_samples(*fetch(*loader, {sample, 99 - sample}), {sample, 99 - sample});
  EXPECT_EQ(loader->stats().engine.source_bytes, total());
  EXPECT_EQ(loader->stats().engine.fetched_samples, 600u);
}

TEST_F(LoaderFetch, ThreadsAskBesideALoop) {
  LoaderSettings with = settings(3);
  with.memory = total() / 2;
  const auto loader = open(with);
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 4; ++first)
    threads.emplace_back([&, first] {
      for (uint64_t sample = first; sample < 100; sample += 4) {
        const auto given_up = fetch(*loader, {sample, 0});
        expect_samples(*fetch(*loader, {sample, 99 - sample}), {sample, 99 - sample});
      }
    });
  run_all(*loader, 3);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LoaderFetch, ASeekLosesNone) {
  const auto loader = open(settings(3));
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (uint64_t sample = 0; sample < 100; ++sample) {
    tickets.push_back(fetch(*loader, {sample}));
    if (sample % 10 == 0) loader->seek(sample % 3, 0);
  }
  for (uint64_t sample = 0; sample < 100; ++sample) expect_samples(*tickets[sample], {sample});
}

// What ordered batches take does not keep a fetch waiting, nor the other way round.
TEST_F(LoaderFetch, ComesWhileNobodyTakesBatches) {
  const auto loader = open(settings(3));
  ASSERT_TRUE(loader->next());
  std::this_thread::sleep_for(milliseconds(100));
  expect_samples(*fetch(*loader, {1, 2, 3}), {1, 2, 3});
}

TEST_F(LoaderFetch, ABadFileIsAnErrorOfItsOwn) {
  LoaderSettings with = fetches_only();
  with.index = root_ / "index";
  const auto loader = open(with);
  std::filesystem::remove(file(7));
  const auto ticket = fetch(*loader, {6, 7, 8});
  ASSERT_TRUE(ticket->wait(Clock::now() + seconds(30)));
  const Fetched& fetched = *ticket->answer();
  ASSERT_EQ(fetched.errors.size(), 1u);
  EXPECT_NE(fetched.errors.at(1).message.find("cat/00007.jpg"), std::string::npos)
      << fetched.errors.at(1).message;
  EXPECT_TRUE(fetched.batch.bytes[1].empty());
  EXPECT_EQ(fetched.batch.bytes[2].size(), contents_.at(8).size());
  expect_samples(*fetch(*loader, {6, 8}), {6, 8});
}

TEST_F(LoaderFetch, ReadsThatFailNowAndThenAreTriedAgain) {
  LoaderSettings with = fetches_only();
  Shape shape;
  shape.fault_share = 0.1;
  with.wrap_source = shaped(shape);
  with.tries = 10;
  const auto loader = open(with);
  for (uint64_t sample = 0; sample < 100; sample += 2)
    expect_samples(*fetch(*loader, {sample, sample + 1}), {sample, sample + 1});
}

TEST_F(LoaderFetch, AStuckSourceIsAnErrorAfterItsDeadlines) {
  LoaderSettings with = fetches_only();
  stuck(with);
  with.read_deadline = milliseconds(100);
  const auto loader = open(with);
  const auto begin = Clock::now();
  const auto ticket = fetch(*loader, {5});
  ASSERT_TRUE(ticket->wait(begin + seconds(10)));
  EXPECT_EQ(ticket->answer()->errors.count(0), 1u);
}

TEST_F(LoaderFetch, ClosingAnswersAllThatWait) {
  LoaderSettings with = settings(3);
  auto loader = open(stuck(with));
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (uint64_t sample = 0; sample < 100; ++sample) tickets.push_back(fetch(*loader, {sample}));
  std::thread waiting([&] { EXPECT_TRUE(tickets[50]->wait(Clock::now() + seconds(20))); });
  const auto begin = Clock::now();
  loader.reset();
  EXPECT_LT(Clock::now() - begin, seconds(5));
  waiting.join();
  for (const auto& ticket : tickets) {
    ASSERT_TRUE(ticket->wait(Clock::now()));
    ASSERT_FALSE(ticket->answer());
    EXPECT_EQ(ticket->answer().error().kind, ErrorKind::cancelled);
  }
}

TEST_F(LoaderFetch, CancellingAnswersAtOnceAndMakesRoom) {
  LoaderSettings with = fetches_only();
  with.read_deadline = milliseconds(200);
  stuck(with);
  const auto loader = open(with);
  const auto ticket = fetch(*loader, {1, 2, 3});
  EXPECT_FALSE(ticket->wait(Clock::now() + milliseconds(20)));
  ticket->cancel();
  ASSERT_TRUE(ticket->wait(Clock::now()));
  EXPECT_EQ(ticket->answer().error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace foreload
