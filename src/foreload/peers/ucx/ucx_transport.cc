// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/ucx_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/peers/ucx/announcement.h"

namespace foreload::ucx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMessageId = 17;
// So many frames a peer are given to UCX at once; all else waits here, where drop() finds it.
constexpr size_t kMostFrames = 32;
// What the end may take: messages that left are pushed out, then endpoints are closed.
constexpr std::chrono::milliseconds kFlushTime{300};
constexpr std::chrono::milliseconds kQuietTime{20};
constexpr std::chrono::milliseconds kCloseTime{700};

// Takes out the requests that are over; whether that was all.
bool all_done(std::vector<ucs_status_ptr_t>& requests) {
  std::erase_if(requests, [](ucs_status_ptr_t request) {
    if (library().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    library().ucp_request_free(request);
    return true;
  });
  return requests.empty();
}

}  // namespace

UcxTransport::UcxTransport(const TransportSettings& settings, TransportCalls calls)
    : rank_(settings.rank),
      secret_(settings.secret),
      calls_(std::move(calls)),
      peers_(settings.ranks) {
  for (uint32_t r = 0; r < settings.ranks; ++r) {
    peers_[r].rank = r;
    peers_[r].transport = this;
  }
}

Result<std::unique_ptr<Transport>> UcxTransport::make(const TransportSettings& settings,
                                                      TransportCalls calls) {
  if (settings.rank >= settings.ranks || !settings.rendezvous) {
    return fail(ErrorKind::invalid,
                fmt::format("the UCX transport needs a rendezvous and a rank below the number of "
                            "ranks; this is rank {} of {}",
                            settings.rank, settings.ranks));
  }
  if (settings.secret == JobSecret{}) {
    return fail(
        ErrorKind::invalid,
        "the UCX transport needs the secret of the job, which is missing. Set FORELOAD_SECRET "
        "or FORELOAD_SECRET_FILE to the same on all ranks");
  }
  // UCX starts a thread of its own; no signal shall land there.
  const SignalsBlocked in_threads_of_ucx;
  std::unique_ptr<UcxTransport> self(new UcxTransport(settings, std::move(calls)));
  FORELOAD_CHECK(self->join(settings));
  return self;
}

Result<void> UcxTransport::join(const TransportSettings& settings) {
  FORELOAD_TRY(nonce_, draw_nonce());
  FORELOAD_TRY(worker_, Worker::open(settings.interface));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = on_message;
  handler.arg = this;
  const ucs_status_t status = library().ucp_worker_set_am_recv_handler(worker_->get(), &handler);
  if (status != UCS_OK) {
    return fail(ErrorKind::unreadable, fmt::format("cannot receive messages with UCX: {}",
                                                   library().ucs_status_string(status)));
  }
  FORELOAD_TRY(
      const auto announced,
      exchange(*settings.rendezvous, "ucx address", rank_, settings.ranks,
               announcement(secret_, {rank_, nonce_, worker_->address()}), settings.join_timeout));
  for (Peer& peer : peers_) {
    if (peer.rank == rank_) continue;
    FORELOAD_TRY(const Announced other,
                 read_announcement(secret_, peer.rank, announced[peer.rank]));
    peer.nonce = other.nonce;
    peer.address = other.address;
  }
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot make an eventfd: {}. Raise the limit of open files",
                            std::strerror(errno)));
  }
  thread_ = start_own_thread("fl-ucx", [this] { work(); });
  return {};
}

UcxTransport::~UcxTransport() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::string UcxTransport::describe() const {
  return fmt::format("ucx ({}, UCX {}.{})", worker_->devices(), library().major, library().minor);
}

void UcxTransport::send(uint32_t to, OutgoingMessage message) {
  assert(to < peers_.size() && to != rank_);
  assert(!message.header.empty() && message.header.size() <= kMostHeaderBytes);
  assert(message.payload.size() <= kMostPayloadBytes);
  auto sending = std::make_shared<Sending>();
  sending->to = to;
  sending->id = message.id;
  sending->header.assign(message.header.begin(), message.header.end());
  sending->payload = message.payload;
  sending->keeper = std::move(message.keeper);
  const std::scoped_lock lock(mutex_);
  inbox_.push_back(std::move(sending));
  if (std::exchange(asleep_, false)) ::eventfd_write(wake_.get(), 1);
}

void UcxTransport::drop(uint32_t rank) {
  peers_[rank].ignored = true;
  const std::scoped_lock lock(mutex_);
  to_drop_.push_back(rank);
  if (std::exchange(asleep_, false)) ::eventfd_write(wake_.get(), 1);
}

void UcxTransport::work() {
  for (;;) {
    take_inbox();
    // Other threads' messages are looked for now and then, whatever comes from the network.
    bool progress = false;
    for (int i = 0; i < 64 && worker_->progress(); ++i) progress = true;
    handle_lost();
    while (!ready_.empty()) {
      Peer& peer = peers_[*ready_.begin()];
      ready_.erase(ready_.begin());
      give_to_ucx(peer);
      progress = true;
    }
    {
      const std::scoped_lock lock(mutex_);
      if (ending_) break;
      if (progress || !inbox_.empty() || !to_drop_.empty()) continue;
      asleep_ = true;
    }
    worker_->sleep(wake_.get(), std::chrono::milliseconds(-1));
    const std::scoped_lock lock(mutex_);
    asleep_ = false;
    eventfd_t value = 0;
    ::eventfd_read(wake_.get(), &value);
  }
  finish();
}

void UcxTransport::take_inbox() {
  std::vector<std::shared_ptr<Sending>> inbox;
  std::vector<uint32_t> to_drop;
  {
    const std::scoped_lock lock(mutex_);
    inbox.swap(inbox_);
    to_drop.swap(to_drop_);
  }
  for (auto& sending : inbox) {
    Peer& peer = peers_[sending->to];
    peer.waiting.push_back(std::move(sending));
    ready_.insert(peer.rank);
  }
  for (const uint32_t rank : to_drop) {
    Peer& peer = peers_[rank];
    if (std::exchange(peer.dropped, true)) continue;
    peer.receiving.reset();
    ready_.insert(rank);
    std::vector<std::shared_ptr<Sending>> under_way;
    for (const FrameOut* frame : with_ucx_) {
      if (frame->message->to == rank) under_way.push_back(frame->message);
    }
    for (const auto& message : under_way) {
      message->failed = true;
      answer(*message);
    }
  }
}

void UcxTransport::give_to_ucx(Peer& peer) {
  if (peer.dropped) {
    fail_waiting(peer);
    // UCX 1.13 may abort where an endpoint is closed that is still connecting.
    if (peer.connected) forget_endpoint(peer);
  }
  while (!peer.waiting.empty() && peer.frames < kMostFrames) {
    // A message of which a frame failed is of no use to the peer any more.
    const std::shared_ptr<Sending> message = peer.waiting.front();
    if (message->failed) {
      peer.waiting.pop_front();
      if (message->frames == 0) answer(*message);
      continue;
    }
    if (peer.endpoint == nullptr && !connect(peer)) {
      fail_waiting(peer);
      return;
    }
    give_frame(peer, message);
  }
}

void UcxTransport::give_frame(Peer& peer, const std::shared_ptr<Sending>& message) {
  const auto piece = message->payload.subspan(
      message->given, std::min<size_t>(kMostPieceBytes, message->payload.size() - message->given));
  FrameStart start;
  start.from = rank_;
  start.count = ++peer.last_sent;
  start.payload_bytes = message->payload.size();
  start.offset = message->given;
  const auto header =
      message->begun ? std::span<const std::byte>() : std::span<const std::byte>(message->header);
  auto* const frame = new FrameOut{this, message, seal_frame(seal_to(peer), start, header, piece)};
  message->begun = true;
  message->given += piece.size();
  if (message->all_given()) peer.waiting.pop_front();
  with_ucx_.insert(frame);
  ++message->frames;
  ++peer.frames;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = frame;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request =
      library().ucp_am_send_nbx(peer.endpoint, kMessageId, frame->bytes.data(), frame->bytes.size(),
                                piece.data(), piece.size(), &param);
  if (request == nullptr) {
    end_frame(frame, true);
  } else if (UCS_PTR_IS_ERR(request)) {
    end_frame(frame, false);
  }
}

bool UcxTransport::connect(Peer& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &peer;
  peer.connected = false;
  const ucs_status_t status = library().ucp_ep_create(worker_->get(), &params, &peer.endpoint);
  if (status == UCS_OK) return true;
  peer.endpoint = nullptr;
  lost_.emplace_back(peer.rank,
                     fmt::format("cannot connect: {}", library().ucs_status_string(status)));
  return false;
}

void UcxTransport::forget_endpoint(Peer& peer) {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t closing =
      library().ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
  if (closing != nullptr && !UCS_PTR_IS_ERR(closing)) closing_.push_back(closing);
}

void UcxTransport::on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status) {
  auto* const self = static_cast<Peer*>(peer);
  if (self->endpoint != endpoint) return;
  self->transport->lost_.emplace_back(self->rank, library().ucs_status_string(status));
}

// Outside of UCX's calls: closes what failed and tells.
void UcxTransport::handle_lost() {
  all_done(closing_);
  for (const auto& [rank, why] : std::exchange(lost_, {})) {
    Peer& peer = peers_[rank];
    forget_endpoint(peer);
    if (peer.ignored) continue;
    if (peer.receiving) end_receiving(peer);
    if (!std::exchange(peer.lost, true)) calls_.lost(rank, why);
  }
}

// All that waits, as far as UCX has nothing of it.
void UcxTransport::fail_waiting(Peer& peer) {
  for (const auto& message : std::exchange(peer.waiting, {})) {
    message->failed = true;
    if (message->frames == 0) answer(*message);
  }
}

// Memory that UCX has not given back stays kept.
void UcxTransport::answer(Sending& message) {
  if (message.frames == 0) message.keeper.reset();
  if (!std::exchange(message.answered, true)) calls_.sent(message.id, !message.failed);
}

void UcxTransport::end_frame(FrameOut* frame, bool ok) {
  const std::shared_ptr<Sending> message = std::move(frame->message);
  with_ucx_.erase(frame);
  delete frame;
  Peer& peer = peers_[message->to];
  --peer.frames;
  if (!peer.waiting.empty() || peer.dropped) ready_.insert(peer.rank);
  if (ok) peer.connected = true;
  if (!ok) message->failed = true;
  // A message that failed halfway still waits in the queue, and is answered when it is taken out.
  const bool waits = !peer.waiting.empty() && peer.waiting.front() == message;
  if (--message->frames == 0 && !waits) answer(*message);
}

void UcxTransport::on_sent(void* request, ucs_status_t status, void* frame) {
  auto* const self = static_cast<FrameOut*>(frame);
  self->transport->end_frame(self, status == UCS_OK);
  library().ucp_request_free(request);
}

ucs_status_t UcxTransport::on_message(void* self, const void* header, size_t header_bytes,
                                      void* data, size_t bytes, const ucp_am_recv_param_t* param) {
  // Foreload sends nothing by rendezvous; whoever does is left without an answer.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    static_cast<UcxTransport*>(self)->receive({static_cast<const std::byte*>(header), header_bytes},
                                              {static_cast<const std::byte*>(data), bytes});
  }
  return UCS_OK;
}

void UcxTransport::receive(std::span<const std::byte> frame, std::span<const std::byte> piece) {
  const auto from = claimed_sender(frame, static_cast<uint32_t>(peers_.size()));
  if (!from || *from == rank_) return;
  Peer& peer = peers_[*from];
  if (peer.ignored) return;
  const auto opened = open_frame(seal_from(peer), frame, piece, peer.last_received);
  if (!opened) return;
  const FrameStart& start = opened->start;
  peer.last_received = start.count;
  peer.lost = false;
  if (start.offset == 0) {
    // The rest of the last message was lost with its connection.
    if (peer.receiving) end_receiving(peer);
    PayloadPlace place;
    if (start.payload_bytes > 0) {
      place = calls_.incoming(*from, opened->header, start.payload_bytes);
    }
    peer.receiving.emplace(Receiving{
        {opened->header.begin(), opened->header.end()}, std::move(place), start.payload_bytes, 0});
  }
  if (!peer.receiving || start.offset != peer.receiving->arrived ||
      start.payload_bytes != peer.receiving->bytes) {
    return;
  }
  if (peer.receiving->place.data != nullptr && !piece.empty()) {
    std::memcpy(peer.receiving->place.data + start.offset, piece.data(), piece.size());
  }
  peer.receiving->arrived += piece.size();
  if (peer.receiving->arrived == peer.receiving->bytes) end_receiving(peer);
}

void UcxTransport::end_receiving(Peer& peer) {
  Receiving ended = std::move(*peer.receiving);
  peer.receiving.reset();
  calls_.arrived(peer.rank, ended.header, std::move(ended.place), ended.bytes,
                 ended.arrived == ended.bytes);
}

Seal& UcxTransport::seal_to(Peer& peer) {
  if (!peer.to)
    peer.to.emplace(secret_, Seal::End{rank_, nonce_}, Seal::End{peer.rank, peer.nonce});
  return *peer.to;
}

Seal& UcxTransport::seal_from(Peer& peer) {
  if (!peer.from) {
    peer.from.emplace(secret_, Seal::End{peer.rank, peer.nonce}, Seal::End{rank_, nonce_});
  }
  return *peer.from;
}

void UcxTransport::finish() {
  take_inbox();
  for (Peer& peer : peers_) {
    // What was sent just before the end, a goodbye above all: without it this rank looks lost.
    if (peer.endpoint != nullptr && peer.connected && !peer.dropped) give_to_ucx(peer);
    peer.ignored = true;
    fail_waiting(peer);
  }
  // What was reported as sent may still be in UCX's buffers.
  std::vector<ucs_status_ptr_t> flushes;
  for (const Peer& peer : peers_) {
    if (peer.endpoint == nullptr || peer.frames > 0) continue;
    const ucp_request_param_t param{};
    const ucs_status_ptr_t flush = library().ucp_ep_flush_nbx(peer.endpoint, &param);
    if (flush != nullptr && !UCS_PTR_IS_ERR(flush)) flushes.push_back(flush);
  }
  // UCX 1.13 aborts the process if a worker ends that is still connecting, to others or, which
  // cannot be seen here, others to it: so both sides go on until nothing happens any more.
  const auto connecting = [](const Peer& peer) {
    return peer.endpoint != nullptr && !peer.connected;
  };
  progress_until(kFlushTime, [&] {
    return all_done(flushes) && std::none_of(peers_.begin(), peers_.end(), connecting);
  });
  progress_until(kFlushTime, [&, quiet_since = Clock::now()]() mutable {
    if (worker_->progress()) quiet_since = Clock::now();
    return Clock::now() - quiet_since > kQuietTime;
  });
  for (Peer& peer : peers_) forget_endpoint(peer);
  progress_until(kCloseTime,
                 [&] { return all_done(closing_) && all_done(flushes) && with_ucx_.empty(); });
  worker_->close();
  while (!with_ucx_.empty()) end_frame(*with_ucx_.begin(), false);
}

void UcxTransport::progress_until(std::chrono::milliseconds most,
                                  const std::function<bool()>& over) {
  const auto deadline = Clock::now() + most;
  while (!over() && Clock::now() < deadline) {
    if (!worker_->progress()) worker_->sleep(wake_.get(), std::chrono::milliseconds(5));
  }
}

}  // namespace foreload::ucx
