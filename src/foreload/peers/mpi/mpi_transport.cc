// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi/mpi_transport.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/peers/mpi/roll_call.h"
#include "foreload/peers/mpi/start.h"

namespace foreload::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHeaderTag = 1;
// One tag is enough: what one rank sends to another with the same tag arrives in order, and both
// sides go through the payloads in the order of their headers.
constexpr int kPayloadTag = 2;
constexpr size_t kPieceBytes = size_t{1} << 30;  // lengths in MPI are int
constexpr size_t kPostedHeaders = 16;
constexpr size_t kMostWithMpi = 32;  // messages a peer
constexpr std::chrono::milliseconds kEndTime{400};

struct FrameStart {
  char magic[4] = {'F', 'L', 'M', '1'};
  uint32_t header_bytes = 0;
  uint64_t payload_bytes = 0;
};
static_assert(sizeof(FrameStart) == 16);
constexpr size_t kMostFrameBytes = sizeof(FrameStart) + kMostHeaderBytes;

// Calls `each(offset, bytes)` for the pieces of a payload.
template <class Each>
void each_piece(uint64_t bytes, Each each) {
  for (uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    each(offset, static_cast<int>(std::min<uint64_t>(kPieceBytes, bytes - offset)));
  }
}

// Whether all requests are over; with an error if one of them is.
bool all_over(std::vector<MPI_Request>& requests, int& error) {
  int done = 0;
  const int result =
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
  if (result != MPI_SUCCESS) {
    error = result;
    return true;
  }
  return done != 0;
}

}  // namespace

struct MpiTransport::Sending {
  uint32_t to = 0;
  uint64_t id = 0;
  std::vector<std::byte> frame;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keeper;
  std::vector<MPI_Request> requests;
  bool answered = false;
};

struct MpiTransport::Receiving {
  uint32_t from = 0;
  uint64_t number = 0;  // in the order of delivery
  std::shared_ptr<const void> keeper;
  std::vector<std::byte> unwanted;  // where a payload goes that nobody wants
  std::vector<MPI_Request> requests;
};

struct MpiTransport::HeaderPlace {
  std::array<std::byte, kMostFrameBytes> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

Result<std::unique_ptr<Transport>> MpiTransport::make(const TransportSettings& settings,
                                                      TransportCalls calls) {
  const SignalsBlocked in_threads_of_mpi;
  FORELOAD_CHECK(start_mpi(settings));
  FORELOAD_TRY(const MPI_Comm own, join_all(settings.join_timeout));
  return std::unique_ptr<Transport>(new MpiTransport(own, settings, std::move(calls)));
}

MpiTransport::MpiTransport(MPI_Comm own, const TransportSettings& settings, TransportCalls calls)
    : rank_(settings.rank), calls_(std::move(calls)), own_(own), peers_(settings.ranks) {
  for (size_t i = 0; i < kPostedHeaders; ++i) {
    headers_.push_back(std::make_unique<HeaderPlace>());
    MPI_Irecv(headers_[i]->bytes.data(), kMostFrameBytes, MPI_BYTE, MPI_ANY_SOURCE, kHeaderTag,
              own_, &headers_[i]->request);
  }
  thread_ = start_own_thread("fl-mpi", [this] { work(); });
}

MpiTransport::~MpiTransport() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::string MpiTransport::describe() const {
  char name[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(name, &length);
  // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\nMPICH Release date: ..."
  std::string text(name, static_cast<size_t>(length));
  text.resize(std::min(text.find_first_of(",\n"), text.size()));
  constexpr std::string_view kNoise = " Version:";
  if (const size_t noise = text.find(kNoise); noise != std::string::npos)
    text.erase(noise, kNoise.size());
  std::replace(text.begin(), text.end(), '\t', ' ');
  return fmt::format("mpi ({})", text);
}

void MpiTransport::send(uint32_t to, OutgoingMessage message) {
  assert(to < peers_.size() && to != rank_);
  assert(!message.header.empty() && message.header.size() <= kMostHeaderBytes);
  auto sending = std::make_unique<Sending>();
  sending->to = to;
  sending->id = message.id;
  FrameStart start;
  start.header_bytes = static_cast<uint32_t>(message.header.size());
  start.payload_bytes = message.payload.size();
  sending->frame.resize(sizeof start + message.header.size());
  std::memcpy(sending->frame.data(), &start, sizeof start);
  std::memcpy(sending->frame.data() + sizeof start, message.header.data(), message.header.size());
  sending->payload = message.payload;
  sending->keeper = std::move(message.keeper);
  {
    const std::scoped_lock lock(mutex_);
    inbox_.push_back(std::move(sending));
  }
  changed_.notify_one();
}

void MpiTransport::drop(uint32_t rank) {
  peers_[rank].dropped = true;
  changed_.notify_one();
}

void MpiTransport::work() {
  std::chrono::microseconds pause = kShortestPause;
  for (;;) {
    bool news = take_inbox();
    news |= start_sends();
    news |= look_at_headers();
    news |= look_at_payloads();
    news |= look_at_sends();
    std::unique_lock lock(mutex_);
    if (ending_) break;
    if (news) {
      pause = kShortestPause;
      continue;
    }
    if (!inbox_.empty()) continue;
    changed_.wait_for(lock, pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  finish();
}

bool MpiTransport::take_inbox() {
  std::vector<std::unique_ptr<Sending>> inbox;
  {
    const std::scoped_lock lock(mutex_);
    inbox.swap(inbox_);
  }
  for (auto& sending : inbox) peers_[sending->to].waiting.push_back(std::move(sending));
  return !inbox.empty();
}

bool MpiTransport::start_sends() {
  bool news = false;
  for (Peer& peer : peers_) {
    while (!peer.waiting.empty() && (peer.with_mpi < kMostWithMpi || peer.dropped)) {
      news = true;
      std::unique_ptr<Sending> sending = std::move(peer.waiting.front());
      peer.waiting.pop_front();
      if (peer.dropped) {
        answer(*sending, false);
        continue;
      }
      const int to = static_cast<int>(sending->to);
      int error =
          MPI_Isend(sending->frame.data(), static_cast<int>(sending->frame.size()), MPI_BYTE, to,
                    kHeaderTag, own_, &sending->requests.emplace_back(MPI_REQUEST_NULL));
      each_piece(sending->payload.size(), [&](uint64_t offset, int bytes) {
        if (error != MPI_SUCCESS) return;
        error = MPI_Isend(sending->payload.data() + offset, bytes, MPI_BYTE, to, kPayloadTag, own_,
                          &sending->requests.emplace_back(MPI_REQUEST_NULL));
      });
      ++peer.with_mpi;
      if (error != MPI_SUCCESS) report_lost(sending->to, error);
      sending_.push_back(std::move(sending));
    }
  }
  return news;
}

bool MpiTransport::look_at_sends() {
  bool news = false;
  for (auto it = sending_.begin(); it != sending_.end();) {
    Sending& sending = **it;
    int error = MPI_SUCCESS;
    const bool over = all_over(sending.requests, error);
    const bool dropped = peers_[sending.to].dropped;
    // MPI cannot take a message back: what is dropped keeps its memory until MPI is done with it.
    if ((over || dropped) && !sending.answered) {
      news = true;
      if (error != MPI_SUCCESS) report_lost(sending.to, error);
      if (over) sending.keeper.reset();
      answer(sending, over && error == MPI_SUCCESS);
    }
    if (over) {
      --peers_[sending.to].with_mpi;
      it = sending_.erase(it);
    } else {
      ++it;
    }
  }
  return news;
}

void MpiTransport::answer(Sending& sending, bool ok) {
  sending.answered = true;
  calls_.sent(sending.id, ok);
}

void MpiTransport::report_lost(uint32_t rank, int error) {
  if (peers_[rank].dropped || std::exchange(peers_[rank].lost, true)) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  calls_.lost(rank,
              fmt::format("MPI says: {}", std::string_view(text, static_cast<size_t>(length))));
}

bool MpiTransport::look_at_headers() {
  bool news = false;
  // In turn: receives are matched in the order they were posted, so this keeps every sender's
  // order.
  for (size_t looked = 0; looked < 4 * kPostedHeaders; ++looked) {
    HeaderPlace& place = *headers_[next_header_];
    int done = 0, bytes = 0;
    MPI_Status status;
    const int error = MPI_Test(&place.request, &done, &status);
    if (error == MPI_SUCCESS && done == 0) break;
    if (error == MPI_SUCCESS) {
      news = true;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      begin_message(static_cast<uint32_t>(status.MPI_SOURCE),
                    std::span(place.bytes).first(static_cast<size_t>(bytes)));
    }
    MPI_Irecv(place.bytes.data(), kMostFrameBytes, MPI_BYTE, MPI_ANY_SOURCE, kHeaderTag, own_,
              &place.request);
    next_header_ = (next_header_ + 1) % headers_.size();
  }
  return news;
}

void MpiTransport::begin_message(uint32_t from, std::span<const std::byte> frame) {
  FrameStart start;
  const FrameStart expected;
  if (frame.size() < sizeof start || from >= peers_.size()) return;
  std::memcpy(&start, frame.data(), sizeof start);
  if (frame.size() == sizeof start && std::memcmp(&start, &expected, sizeof start) == 0) {
    peers_[from].left = true;  // a farewell
    return;
  }
  if (std::memcmp(start.magic, expected.magic, sizeof start.magic) != 0 ||
      start.header_bytes != frame.size() - sizeof start || start.header_bytes == 0 ||
      start.payload_bytes > kMostPayloadBytes) {
    return;
  }
  const auto header = frame.subspan(sizeof start);
  Peer& peer = peers_[from];
  PayloadPlace place;
  if (peer.dropped) {
    peer.order.silence();
  } else if (start.payload_bytes > 0) {
    place = calls_.incoming(from, header, start.payload_bytes);
  }
  auto receiving = std::make_unique<Receiving>();
  receiving->from = from;
  receiving->keeper = place.keeper;
  std::byte* into = place.data;
  receiving->number = peer.order.begin(header, std::move(place), start.payload_bytes);
  if (start.payload_bytes == 0) {
    peer.order.end(receiving->number, true, from, calls_);
    return;
  }
  if (into == nullptr) {
    // It comes in any case.
    receiving->unwanted.resize(start.payload_bytes);
    into = receiving->unwanted.data();
  }
  each_piece(start.payload_bytes, [&](uint64_t offset, int bytes) {
    MPI_Irecv(into + offset, bytes, MPI_BYTE, static_cast<int>(from), kPayloadTag, own_,
              &receiving->requests.emplace_back(MPI_REQUEST_NULL));
  });
  receiving_.push_back(std::move(receiving));
}

bool MpiTransport::look_at_payloads() {
  bool news = false;
  for (auto it = receiving_.begin(); it != receiving_.end();) {
    int error = MPI_SUCCESS;
    if (!all_over((*it)->requests, error)) {
      ++it;
      continue;
    }
    news = true;
    const std::unique_ptr<Receiving> ended = std::move(*it);
    it = receiving_.erase(it);
    ended->keeper.reset();
    Peer& peer = peers_[ended->from];
    if (peer.dropped) peer.order.silence();
    peer.order.end(ended->number, error == MPI_SUCCESS, ended->from, calls_);
  }
  return news;
}

// A frame without header or payload, to everybody.
void MpiTransport::say_farewell() {
  static const FrameStart farewell;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&farewell, sizeof farewell, MPI_BYTE, static_cast<int>(rank), kHeaderTag, own_,
              &request);
    MPI_Request_free(&request);
  }
}

void MpiTransport::finish() {
  take_inbox();
  std::vector<const Peer*> given_up;
  for (Peer& peer : peers_) {
    if (peer.dropped) given_up.push_back(&peer);
    peer.dropped = true;
    peer.order.silence();
  }
  start_sends();
  if (!finalized()) {
    const auto deadline = Clock::now() + kEndTime;
    say_farewell();
    // Who was given up because it said goodbye says farewell too; who does not is dead.
    const auto all_left = [&] {
      return std::all_of(given_up.begin(), given_up.end(), [](auto* peer) { return peer->left; });
    };
    const auto over = [&] { return sending_.empty() && receiving_.empty() && all_left(); };
    while (!over() && Clock::now() < deadline) {
      look_at_sends();
      look_at_headers();
      look_at_payloads();
      if (!over()) std::this_thread::sleep_for(kShortestPause);
    }
    if (!all_left()) do_not_wait_for_the_dead();
    for (auto& place : headers_) {
      MPI_Cancel(&place->request);
      MPI_Wait(&place->request, MPI_STATUS_IGNORE);
    }
  }
  for (auto& sending : sending_) {
    if (!sending->answered) answer(*sending, false);
  }
  // MPI may read and write what it has not let go for as long as the process lives, so that memory
  // is left to it.
  for (auto& sending : sending_) (void)sending.release();
  for (auto& receiving : receiving_) (void)receiving.release();
  // The communicator stays as well: others may still send on it, and MPI gives the number of one
  // that was freed to the next, which would then get those messages.
}

}  // namespace foreload::mpi
