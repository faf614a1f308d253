// SPDX-License-Identifier: Apache-2.0
//
// Result<T> is what a function returns when it can fail for reasons its caller must expect: bad
// input, an unreadable file, a corrupt index. Exceptions are thrown only at the Python border.
//
// An error message is one line that names the object, the action and the remedy. It is written
// where the failure is understood and passed up unchanged.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace foreload {

enum class ErrorKind {
  invalid,      // what was asked for makes no sense; asking again the same way will not help
  unreadable,   // a file or folder cannot be read or written
  corrupt,      // bytes were read but are not what was written
  cancelled,    // the caller asked to stop
  unsupported,  // sensible, but not with the library at hand; somebody else may be able to
};

struct Error {
  ErrorKind kind;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}

}  // namespace foreload

#define FORELOAD_JOIN_(a, b) a##b
#define FORELOAD_JOIN(a, b) FORELOAD_JOIN_(a, b)

// FORELOAD_TRY(auto value, expression) evaluates an expression of type Result<T>; on error it
// returns that error from the enclosing function, otherwise it declares `value`.
#define FORELOAD_TRY(declaration, expression)                                   \
  auto FORELOAD_JOIN(result_, __LINE__) = (expression);                         \
  if (!FORELOAD_JOIN(result_, __LINE__))                                        \
    return tl::unexpected(std::move(FORELOAD_JOIN(result_, __LINE__)).error()); \
  declaration = std::move(*FORELOAD_JOIN(result_, __LINE__))

// The same for Result<void>.
#define FORELOAD_CHECK(expression)                                                               \
  if (auto FORELOAD_JOIN(checked_, __LINE__) = (expression); !FORELOAD_JOIN(checked_, __LINE__)) \
  return tl::unexpected(std::move(FORELOAD_JOIN(checked_, __LINE__)).error())
