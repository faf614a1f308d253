// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/engine.h"

#include <string_view>
#include <utility>
#include <variant>

#include "foreload/base/own_thread.h"

namespace foreload {
namespace {

// Names of skipped samples that are kept.
constexpr size_t kNamesOfAnEpoch = 100;
constexpr size_t kNamesOfARun = 5000;
constexpr std::chrono::milliseconds kFarewell{500};

EngineParts completed(EngineParts parts) {
  if (!parts.hands) parts.hands = std::make_unique<Hands>(1);
  if (!parts.decoded) parts.decoded = parts.staging;
  parts.policy.decode = static_cast<bool>(parts.transform);
  parts.policy.peers = parts.peers != nullptr;
  parts.policy.neighbours.clear();
  for (uint32_t rank = 0; rank < parts.neighbours.size(); ++rank)
    if (parts.neighbours[rank]) parts.policy.neighbours.push_back(rank);
  if (parts.transform) parts.policy.decoded_bytes = parts.transform.fixed_bytes();
  return parts;
}

}  // namespace

Engine::Engine(EngineParts parts) : parts_(completed(std::move(parts))) {
  update_counts();
  thread_ = start_own_thread("foreload-loop", [this] { loop(); });
}

Engine::~Engine() {
  parts_.inbox->post(message::Stop{});
  thread_.join();
  parts_.hand_over.close();
  if (parts_.peers) parts_.peers->say_goodbye();
  parts_.peers.reset();
  parts_.source.reset();
  finish_placing();
  // What hands still do may ask tiers; what tiers then ask of them is forgotten.
  parts_.hands.reset();
  parts_.lent.give_back();
  parts_.tiers.clear();
}

void Engine::finish_placing() {
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  std::vector<Message> messages;
  while (parts_.lent.are_placing() && std::chrono::steady_clock::now() < until) {
    parts_.inbox->take(messages, until);
    for (const Message& message : messages)
      if (const auto* answered = std::get_if<message::TierAnswered>(&message))
        for (const TierAnswer& answer : answered->answers)
          parts_.lent.end(answered->tier, answer.id);
  }
}

// The consumer's side.

Result<Batch> Engine::next(std::optional<SteadyTime> until) {
  HandOver::Ready ready = parts_.hand_over.take(until);
  if (!ready.batch) return std::move(ready.batch);
  taken_ = ready.number;
  if (!ready.batch->skipped.empty()) count_skipped(*ready.batch);
  return std::move(ready.batch);
}

void Engine::count_skipped(const Batch& batch) {
  if (std::exchange(named_epoch_, batch.epoch) != batch.epoch) names_of_epoch_ = 0;
  parts_.counts.count([&](EngineStats& stats) {
    stats.skipped_samples += batch.skipped.size();
    for (const uint64_t sample : batch.skipped) {
      if (names_of_epoch_ == kNamesOfAnEpoch || stats.skipped.size() == kNamesOfARun) return;
      stats.skipped.emplace_back(parts_.index->sample_name(sample));
      ++names_of_epoch_;
    }
  });
}

void Engine::release() {
  if (!taken_) return;
  parts_.inbox->post(Event{event::Consumed{*taken_}});
  taken_.reset();
}

void Engine::seek(uint64_t epoch, uint64_t start) {
  parts_.hand_over.drop();
  taken_.reset();
  parts_.inbox->post(Event{event::Seek{epoch, start}});
}

void Engine::learn(uint64_t epoch, std::shared_ptr<const EpochOrder> order) {
  parts_.inbox->post(Event{event::EpochKnown{epoch, std::move(order)}});
}

std::shared_ptr<Ticket> Engine::fetch(std::vector<uint64_t> samples, bool as_bytes) {
  const uint64_t number = next_fetch_++;
  auto ticket = std::make_shared<Ticket>(number, parts_.inbox);
  if (samples.empty()) {
    ticket->set(Fetched{});
    return ticket;
  }
  parts_.hand_over.expect(number, ticket);
  parts_.inbox->post(Event{event::Fetch{number, std::move(samples), as_bytes}});
  return ticket;
}

EngineStats Engine::stats() const {
  EngineStats stats = parts_.counts.stats();
  for (const auto& tier : parts_.tiers) {
    stats.kept_bytes.push_back(tier->payload());
    tier->visit([&stats](std::string_view name, uint64_t value) {
      if (name == "overhead") stats.tier_overhead += value;
    });
  }
  return stats;
}

// The loop's side.

void Engine::loop() {
  parts_.run.begin();
  driver_.carry_out_all();
  // Each message goes to whom it concerns.
  const auto pass_on = [this](auto& message) {
    if constexpr (requires { reads_.handle(message); })
      reads_.handle(message);
    else if constexpr (requires { peers_.handle(message); })
      peers_.handle(message);
    else if constexpr (requires { driver_.handle(message); })
      driver_.handle(message);
    else
      handle(message);
  };
  std::vector<Message> messages;
  while (!stopping_) {
    parts_.inbox->take(messages, parts_.run.timer());
    for (Message& message : messages) std::visit(pass_on, message);
    // After the messages: what has arrived is not late, however long this thread slept.
    parts_.run.tell_time();
    driver_.carry_out_all();
    update_counts();
  }
}

void Engine::update_counts() {
  parts_.counts.update(parts_.run.policy(), {parts_.hand_over.ready(), parts_.lent.disk_jobs(),
                                             reads_.asked_of_peers()});
}

void Engine::handle(message::TierAnswered& answered) {
  for (const TierAnswer& answer : answered.answers) end_tier_job(answered.tier, answer);
}

void Engine::end_tier_job(uint32_t tier, const TierAnswer& answer) {
  if (answer.end == TierEnd::failed) {
    const auto why = parts_.tiers[tier]->dead();
    if (why && parts_.lent.lose(tier, *why)) parts_.run.tell(event::TierLost{tier});
  }
  parts_.lent.end(tier, answer.id);
  if (answer.end == TierEnd::corrupt)
    parts_.counts.count([](EngineStats& stats) { ++stats.corrupt_copies; });
  const bool done = answer.end == TierEnd::done;
  const uint64_t number = LentTiers::number_of(answer.id);
  switch (LentTiers::job_of(answer.id)) {
    case LentTiers::Job::read:
      return reads_.end(number, done ? ReadEnd::ok : ReadEnd::missing);
    case LentTiers::Job::serve:
      return peers_.end_serving(number, answer);
    case LentTiers::Job::place:
      // Another sample may have the same bytes.
      const bool there = answer.end == TierEnd::full && parts_.lent.holds(tier, number);
      parts_.run.tell(event::Placed{number, tier, done || there});
  }
}

void Engine::handle(Event& event) {
  if (std::holds_alternative<event::Seek>(event)) {
    driver_.carry_out_all();
    parts_.hand_over.begin_anew();
  }
  if (const auto* forgotten = std::get_if<event::ForgetFetch>(&event))
    parts_.hand_over.forget(forgotten->batch);
  parts_.run.tell(event);
}

}  // namespace foreload
