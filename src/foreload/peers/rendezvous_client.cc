// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/rendezvous_client.h"

#include <utility>

#include <fmt/format.h>

namespace foreload::peers {
namespace {

// What is answered at once, however long that takes.
constexpr std::chrono::seconds kAnswerTime{10};

bool answers(const Frame& answer, const Frame& question) {
  if (answer.key != question.key) return false;
  if (question.kind == FrameKind::put)
    return answer.kind == FrameKind::done || answer.kind == FrameKind::refused;
  return answer.kind == FrameKind::found ||
         (answer.kind == FrameKind::refused && question.kind == FrameKind::look);
}

}  // namespace

Result<void> RendezvousClient::put(const std::string& key, const std::string& value) {
  FORELOAD_CHECK(check_sizes(key, value.size()));
  FORELOAD_TRY(const Frame answer, ask({FrameKind::put, key, value}, kAnswerTime));
  if (answer.kind == FrameKind::done) return {};
  return cannot_put(key);
}

Result<std::string> RendezvousClient::get(const std::string& key,
                                          std::chrono::milliseconds timeout) {
  FORELOAD_CHECK(check_sizes(key, 0));
  const bool wait = timeout.count() > 0;
  FORELOAD_TRY(Frame answer, ask({wait ? FrameKind::get : FrameKind::look, key, {}},
                                 wait ? timeout : kAnswerTime));
  if (answer.kind == FrameKind::found) return std::move(answer.value);
  return fail(ErrorKind::cancelled, fmt::format("{} is not in the rendezvous {}", key, place_));
}

Result<Frame> RendezvousClient::ask(const Frame& question, std::chrono::milliseconds timeout) {
  const std::scoped_lock lock(mutex_);
  const auto deadline = Clock::now() + timeout;
  const bool goes_on = question.kind == FrameKind::get && open_ == question.key;
  open_.clear();
  bool given = goes_on;
  if (!goes_on) {
    FORELOAD_TRY(given, give(question, deadline));
  }
  while (given) {
    FORELOAD_TRY(std::optional<Frame> answer, take_answer(deadline));
    if (!answer) {
      if (question.kind == FrameKind::get) open_ = question.key;
      break;
    }
    // Others belong to questions that were given up.
    if (answers(*answer, question)) return std::move(*answer);
  }
  return fail(ErrorKind::cancelled,
              fmt::format("{} did not appear in time in the rendezvous {}", question.key, place_));
}

}  // namespace foreload::peers
