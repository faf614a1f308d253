// SPDX-License-Identifier: Apache-2.0
//
// The functions of OpenSSL's libcrypto that seals need, in one table, opened at run time: version 3
// or 1.1, which have them in the same form. So a package carries no OpenSSL of its own that nobody
// keeps up to date.
#pragma once

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "foreload/base/result.h"

namespace foreload::ucx {

// clang-format off
#define FORELOAD_CRYPTO_FUNCTIONS(each)                                                           \
  each(CRYPTO_memcmp) each(EVP_CIPHER_CTX_ctrl) each(EVP_CIPHER_CTX_free)                         \
  each(EVP_CIPHER_CTX_new) each(EVP_EncryptFinal_ex) each(EVP_EncryptInit_ex)                     \
  each(EVP_EncryptUpdate) each(EVP_aes_128_gcm) each(EVP_sha256) each(HMAC)                       \
  each(OPENSSL_cleanse) each(RAND_bytes)
// clang-format on

struct Crypto {
#define FORELOAD_MEMBER(name) decltype(&::name) name = nullptr;
  FORELOAD_CRYPTO_FUNCTIONS(FORELOAD_MEMBER)
#undef FORELOAD_MEMBER
};

// Fails with `unreadable` if there is no libcrypto. One thread at a time; again does no harm.
Result<void> open_crypto();

// REQUIRES: open_crypto() did not fail. Any thread.
const Crypto& crypto();

}  // namespace foreload::ucx
