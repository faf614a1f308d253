// SPDX-License-Identifier: Apache-2.0
//
// A web server on the loopback for tests: the files below a folder, with ranges, pages of links for
// folders, and what is put and deleted. A named pipe is a file that never answers. It speaks as
// much HTTP as libcurl needs.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/text.h"

namespace foreload {

class HttpServer {
 public:
  struct Settings {
    bool ranges = true;
    bool pages = true;
    int always = 0;  // this status, whatever is asked
  };

  explicit HttpServer(std::filesystem::path folder, Settings settings)
      : folder_(std::move(folder)), settings_(settings) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 512) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no loopback");
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  explicit HttpServer(std::filesystem::path folder) : HttpServer(std::move(folder), Settings()) {}
  ~HttpServer() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
    }
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    for (std::thread& thread : threads_) thread.join();
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const { return fmt::format("http://127.0.0.1:{}", port_); }
  size_t connections() const { return connections_; }

 private:
  struct Request {
    std::string method, path;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
  };

  void accept_all() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const std::scoped_lock lock(mutex_);
      if (stopping_) {
        ::close(connection);
        return;
      }
      ++connections_;
      open_.insert(connection);
      threads_.emplace_back([this, connection] { serve(connection); });
    }
  }

  void serve(int connection) {
    std::string buffer;
    while (const std::optional<Request> request = receive(connection, buffer)) {
      const std::optional<std::string> answer = answer_to(*request);
      if (!answer) {  // never: until the other side has had enough
        char byte = 0;
        while (::recv(connection, &byte, 1, 0) > 0) continue;
        break;
      }
      if (!send_all(connection, *answer)) break;
    }
    const std::scoped_lock lock(mutex_);
    open_.erase(connection);
    ::close(connection);
  }

  static bool send_all(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  static bool receive_more(int connection, std::string& buffer) {
    char piece[16384];
    const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
    if (got > 0) buffer.append(piece, static_cast<size_t>(got));
    return got > 0;
  }
  static std::optional<Request> receive(int connection, std::string& buffer) {
    size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
      if (!receive_more(connection, buffer)) return std::nullopt;
    Request request;
    size_t at = buffer.find("\r\n");
    const std::string first = buffer.substr(0, at);
    request.method = first.substr(0, first.find(' '));
    const size_t path = request.method.size() + 2;  // without the first '/'
    request.path = unescaped(first.substr(path, first.find(' ', path) - path));
    while (at < end) {
      const size_t line = at + 2;
      at = buffer.find("\r\n", line);
      const size_t colon = buffer.find(':', line);
      request.headers[lower_case(buffer.substr(line, colon - line))] =
          buffer.substr(colon + 2, at - colon - 2);
    }
    size_t length = 0;
    if (request.headers.contains("content-length"))
      length = std::stoul(request.headers["content-length"]);
    if (request.headers.contains("expect")) send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    while (buffer.size() < end + 4 + length)
      if (!receive_more(connection, buffer)) return std::nullopt;
    request.body = buffer.substr(end + 4, length);
    buffer.erase(0, end + 4 + length);
    return request;
  }
  static std::string unescaped(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%') {
        plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        plain += text[i];
      }
    }
    return plain;
  }
  static std::string escaped(const std::string& text) {
    std::string url;
    for (const char c : text)
      url += std::isalnum(static_cast<unsigned char>(c)) != 0
                 ? std::string(1, c)
                 : fmt::format("%{:02x}", static_cast<unsigned char>(c));
    return url;
  }

  static std::string answer(int status, std::string_view body = "", std::string_view headers = "",
                            bool only_head = false) {
    return fmt::format("HTTP/1.1 {} whatever\r\nContent-Length: {}\r\n{}\r\n{}", status,
                       body.size(), headers, only_head ? "" : body);
  }

  // Nothing: it never comes.
  std::optional<std::string> answer_to(const Request& request) {
    namespace fs = std::filesystem;
    if (settings_.always != 0) return answer(settings_.always);
    const fs::path file = folder_ / request.path;
    std::error_code error;
    if (request.method == "PUT") {
      fs::create_directories(file.parent_path(), error);
      const fs::path beside = file.native() + ".part";
      std::ofstream(beside, std::ios::binary) << request.body;
      fs::rename(beside, file, error);
      return answer(error ? 500 : 201);
    }
    if (request.method == "DELETE") return answer(fs::remove(file, error) ? 204 : 404);
    const fs::file_status status = fs::status(file, error);
    if (fs::is_fifo(status)) return std::nullopt;
    if (fs::is_directory(status)) return page_of(request, file);
    if (!fs::is_regular_file(status)) return answer(404, "there is no such thing");
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto time = fs::last_write_time(file, error).time_since_epoch().count();
    const std::string tag = fmt::format("ETag: \"{:x}-{:x}\"\r\n", time, bytes.size());
    const auto range = request.headers.find("range");
    const bool head = request.method == "HEAD";
    if (range == request.headers.end() || !settings_.ranges) return answer(200, bytes, tag, head);
    const size_t begin = std::stoul(range->second.substr(6));
    size_t last = std::stoul(range->second.substr(range->second.find('-') + 1));
    if (begin >= bytes.size()) return answer(416);
    last = std::min(last, bytes.size() - 1);
    return answer(
        206, bytes.substr(begin, last - begin + 1),
        fmt::format("{}Content-Range: bytes {}-{}/{}\r\n", tag, begin, last, bytes.size()), head);
  }
  std::string page_of(const Request& request, const std::filesystem::path& folder) const {
    if (!settings_.pages) return answer(403);
    if (!request.path.empty() && !request.path.ends_with('/'))
      return answer(301, "", fmt::format("Location: /{}/\r\n", request.path));
    std::string page = "<html><a href=\"../\">..</a><a href=\"?sort=size\">by size</a>";
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      page += fmt::format("<a href=\"{}{}\">x</a>", escaped(entry.path().filename().native()),
                          entry.is_directory() ? "/" : "");
    return answer(200, page, "Content-Type: text/html\r\n");
  }

  const std::filesystem::path folder_;
  const Settings settings_;
  int listener_ = -1;
  int port_ = 0;
  std::thread accepting_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::set<int> open_;
  std::vector<std::thread> threads_;
  std::atomic<size_t> connections_ = 0;
};

}  // namespace foreload
