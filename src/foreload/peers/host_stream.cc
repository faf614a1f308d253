// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/host_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace foreload::peers {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;

}  // namespace

HostStream::HostStream(Descriptor connection)
    : connection_(std::move(connection)), buffer_(kBufferBytes) {}

bool HostStream::read(size_t most, const Limits& limits, const TransportCalls& calls,
                      const std::function<bool(uint32_t)>& ignored) {
  for (size_t read = 0; read < most;) {
    // Into the place at once where nothing is left in the buffer.
    const bool direct = message_ && message_->place.data != nullptr && buffered() == 0;
    std::byte* into = buffer_.data() + end_;
    size_t room = buffer_.size() - end_;
    if (direct) {
      into = message_->place.data + message_->arrived;
      room = std::min<uint64_t>(message_->bytes - message_->arrived, most);
    }
    const ssize_t got = ::recv(connection_.get(), into, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    read += static_cast<size_t>(got);
    if (!direct) {
      end_ += static_cast<size_t>(got);
    } else if ((message_->arrived += static_cast<uint64_t>(got)) == message_->bytes) {
      end_message(calls);
    }
    if (!take_apart(limits, calls, ignored)) return false;
    if (from_ && ignored(*from_)) return true;
  }
  return true;
}

bool HostStream::take_apart(const Limits& limits, const TransportCalls& calls,
                            const std::function<bool(uint32_t)>& ignored) {
  while (buffered() > 0) {
    const std::byte* const at = buffer_.data() + begin_;
    if (!from_) {
      Hello hello;
      const Hello expected;
      if (buffered() < sizeof hello) break;
      std::memcpy(&hello, at, sizeof hello);
      if (std::memcmp(hello.magic, expected.magic, sizeof hello.magic) != 0 ||
          hello.rank >= limits.ranks || hello.rank == limits.own_rank)
        return false;
      from_ = hello.rank;
      begin_ += sizeof hello;
    } else if (ignored(*from_)) {
      return true;
    } else if (message_) {
      const size_t piece = std::min<uint64_t>(buffered(), message_->bytes - message_->arrived);
      if (message_->place.data != nullptr)
        std::memcpy(message_->place.data + message_->arrived, at, piece);
      message_->arrived += piece;
      begin_ += piece;
      if (message_->arrived == message_->bytes) end_message(calls);
    } else {
      MessageStart start;
      if (buffered() < sizeof start) break;
      std::memcpy(&start, at, sizeof start);
      if (start.header_bytes == 0 || start.header_bytes > kMostHeaderBytes || start.zero != 0 ||
          start.payload_bytes > kMostPayloadBytes)
        return false;
      if (buffered() < sizeof start + start.header_bytes) break;
      const std::byte* const header = at + sizeof start;
      begin_ += sizeof start + start.header_bytes;
      Message& message = message_.emplace();
      message.header.assign(header, header + start.header_bytes);
      message.bytes = start.payload_bytes;
      if (message.bytes > 0) {
        message.place = calls.incoming(*from_, message.header, message.bytes);
      } else {
        end_message(calls);
      }
    }
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
  end_ -= std::exchange(begin_, 0);
  return true;
}

void HostStream::end_message(const TransportCalls& calls) {
  Message ended = std::move(*message_);
  message_.reset();
  calls.arrived(*from_, ended.header, std::move(ended.place), ended.bytes,
                ended.arrived == ended.bytes);
}

void HostStream::cut(const TransportCalls& calls) {
  if (message_) end_message(calls);
}

}  // namespace foreload::peers
