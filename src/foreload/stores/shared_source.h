// SPDX-License-Identifier: Apache-2.0
//
// A source around work that its thread shares in, so that both outlive the source where the system
// does not let go of a read. Private to stores.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "foreload/base/patient_thread.h"
#include "foreload/stores/source.h"

namespace foreload {

// Given to the system at the end of a source.
inline constexpr std::chrono::milliseconds kReadFarewell{500};

// `Work` has what a source has, run() for the thread, and stop(), which answers everything and lets
// run() end.
template <class Work>
class SharedSource final : public Source {
 public:
  // Throws std::system_error where the system gives no thread.
  SharedSource(const char* thread, std::shared_ptr<Work> work)
      : work_(std::move(work)), thread_(thread, [shared = work_] { shared->run(); }) {}
  ~SharedSource() override {
    work_->stop();
    thread_.end_by(std::chrono::steady_clock::now() + kReadFarewell);
  }
  SharedSource(const SharedSource&) = delete;
  SharedSource& operator=(const SharedSource&) = delete;

  void submit(std::span<const SourceRead> reads) override { work_->submit(reads); }
  void cancel(uint64_t id) override { work_->cancel(id); }
  uint64_t abandoned() const override { return work_->abandoned(); }
  std::string describe() const override { return work_->describe(); }

 private:
  const std::shared_ptr<Work> work_;
  PatientThread thread_;
};

}  // namespace foreload
