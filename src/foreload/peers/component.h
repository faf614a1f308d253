// SPDX-License-Identifier: Apache-2.0
//
// The border between foreload and a transport in a module of its own, in C: the two sides may come
// from different compilers and C++ libraries. A module exports one foreload_component under the
// name foreload_transport_component; load_transport() looks for it. border.h has what turns these
// structures into Transport and Rendezvous, and back.
//
// Three rules hold on both sides. Nothing is thrown across: a function that can fail returns a
// foreload_outcome and tells why as text. What a side has allocated it frees itself: the other side
// calls `release` or `end`, once. Text and bytes are valid until the call that got them returns.
// Threads and promises are those of transport.h and rendezvous.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Changes with every change of this file that both sides must know.
enum { FORELOAD_BORDER = 5 };

enum foreload_outcome {
  FORELOAD_OK = 0,
  FORELOAD_INVALID = 1,
  FORELOAD_UNREADABLE = 2,
  FORELOAD_CORRUPT = 3,
  FORELOAD_CANCELLED = 4
};

// Takes bytes that the other side gives, at most once a call.
struct foreload_taker {
  void* self;
  void (*take)(void* self, const void* bytes, size_t size);
};

// Memory stays as it is until `release` is called; null `object`: there is nothing to keep.
struct foreload_keeper {
  void* object;
  void (*release)(void* object);
};

struct foreload_place {
  void* data;  // null: not wanted
  struct foreload_keeper keeper;
};

struct foreload_message {
  uint64_t id;
  const void* header;
  size_t header_bytes;
  const void* payload;
  uint64_t payload_bytes;
  struct foreload_keeper keeper;
};

// What a transport calls. Lives longer than the transport.
struct foreload_calls {
  void* self;
  struct foreload_place (*incoming)(void* self, uint32_t from, const void* header,
                                    size_t header_bytes, uint64_t bytes);
  void (*arrived)(void* self, uint32_t from, const void* header, size_t header_bytes,
                  struct foreload_place place, uint64_t bytes, int intact);
  void (*sent)(void* self, uint64_t id, int ok);
  void (*lost)(void* self, uint32_t rank, const char* why, size_t why_bytes);
};

struct foreload_transport {
  void* self;
  // Takes the keeper over. FORELOAD_OK, or there was no memory, and `sent` is not called.
  int (*send)(void* self, uint32_t to, const struct foreload_message* message);
  void (*drop)(void* self, uint32_t rank);
  void (*describe)(void* self, struct foreload_taker text);
  void (*end)(void* self);
};

// `why` takes the reason of a failure, `value` what was found. Keys end in a zero.
struct foreload_rendezvous {
  void* self;  // null: none
  int (*put)(void* self, const char* key, const void* value, size_t bytes,
             struct foreload_taker why);
  int (*get)(void* self, const char* key, int64_t timeout_ms, struct foreload_taker value,
             struct foreload_taker why);
  // Rendezvous::above(), or below() if `down` is not 0; a null `self`: there is none.
  struct foreload_rendezvous (*relay)(void* self, int down);
  void (*end)(void* self);
};

struct foreload_settings {
  size_t size;  // of this structure
  uint32_t rank;
  uint32_t ranks;
  int64_t join_timeout_ms;
  const char* interface;
  const char* ucx;          // TransportSettings::ucx
  const char* ucx_package;  // TransportSettings::ucx_package
  uint8_t secret[32];
  struct foreload_rendezvous rendezvous;  // the module ends it, whatever comes of the call
};

struct foreload_component {
  uint32_t border;        // FORELOAD_BORDER; the first field for ever
  uint32_t size;          // of this structure
  const char* built_for;  // foreload's version
  // Opens the libraries of the network, once a process; null: there is nothing to open.
  int (*open)(const struct foreload_settings* settings, struct foreload_taker why);
  // REQUIRES: opened.
  int (*make)(const struct foreload_settings* settings, const struct foreload_calls* calls,
              struct foreload_transport* made, struct foreload_taker why);
  // A rendezvous that needs no other service; null: this component has none.
  int (*meet)(const struct foreload_settings* settings, struct foreload_rendezvous* made,
              struct foreload_taker why);
};

#ifdef __cplusplus
}
#endif
