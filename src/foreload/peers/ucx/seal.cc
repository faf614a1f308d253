// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/seal.h"

#include <cstring>
#include <new>
#include <vector>

#include "foreload/peers/ucx/crypto.h"

namespace foreload::ucx {
namespace {

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* start = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), start, start + sizeof value);
}

}  // namespace

Result<RunNonce> draw_nonce() {
  RunNonce nonce;
  if (crypto().RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size()) != 1) {
    return fail(
        ErrorKind::unreadable,
        "cannot draw random numbers for the UCX transport. Check that /dev/urandom is there");
  }
  return nonce;
}

std::array<std::byte, 32> authenticate(const JobSecret& secret, std::span<const std::byte> bytes) {
  std::array<std::byte, 32> out{};
  unsigned size = out.size();
  // Fails only where memory does.
  if (crypto().HMAC(crypto().EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                    raw(bytes.data()), bytes.size(), reinterpret_cast<unsigned char*>(out.data()),
                    &size) == nullptr) {
    throw std::bad_alloc();
  }
  return out;
}

struct Seal::Context {
  EVP_CIPHER_CTX* gcm = crypto().EVP_CIPHER_CTX_new();
  ~Context() { crypto().EVP_CIPHER_CTX_free(gcm); }
};

Seal::Seal(const JobSecret& secret, const End& from, const End& to)
    : context_(std::make_unique<Context>()) {
  std::vector<std::byte> purpose;
  append(purpose, std::array<char, 16>{"foreload ucx k1"});
  for (const End* end : {&from, &to}) {
    append(purpose, end->rank);
    append(purpose, end->nonce);
  }
  auto key = authenticate(secret, purpose);
  const bool ok = context_->gcm != nullptr &&
                  crypto().EVP_EncryptInit_ex(context_->gcm, crypto().EVP_aes_128_gcm(), nullptr,
                                              raw(key.data()), nullptr) == 1;
  crypto().OPENSSL_cleanse(key.data(), key.size());
  if (!ok) throw std::bad_alloc();
}
Seal::~Seal() = default;
Seal::Seal(Seal&&) noexcept = default;
Seal& Seal::operator=(Seal&&) noexcept = default;

Tag Seal::tag(uint64_t count, std::span<const std::byte> first, std::span<const std::byte> second) {
  std::array<std::byte, 12> nonce{};
  std::memcpy(nonce.data(), &count, sizeof count);
  EVP_CIPHER_CTX* const gcm = context_->gcm;
  int length = 0;
  bool ok = crypto().EVP_EncryptInit_ex(gcm, nullptr, nullptr, nullptr, raw(nonce.data())) == 1;
  for (const auto piece : {first, second}) {
    // Nothing is encrypted: without a place for the result, the bytes are only authenticated.
    ok =
        ok && (piece.empty() || crypto().EVP_EncryptUpdate(gcm, nullptr, &length, raw(piece.data()),
                                                           static_cast<int>(piece.size())) == 1);
  }
  Tag tag;
  unsigned char nothing[16];
  ok = ok && crypto().EVP_EncryptFinal_ex(gcm, nothing, &length) == 1;
  ok = ok && crypto().EVP_CIPHER_CTX_ctrl(gcm, EVP_CTRL_GCM_GET_TAG, tag.size(), tag.data()) == 1;
  if (!ok) throw std::bad_alloc();
  return tag;
}

bool Seal::matches(uint64_t count, std::span<const std::byte> first,
                   std::span<const std::byte> second, const Tag& tag) {
  const Tag right = this->tag(count, first, second);
  return crypto().CRYPTO_memcmp(right.data(), tag.data(), tag.size()) == 0;
}

}  // namespace foreload::ucx
