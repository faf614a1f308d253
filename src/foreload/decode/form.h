// SPDX-License-Identifier: Apache-2.0
//
// A form in which samples are kept. It stands between the source and everything else: what a read
// of the source brings is made into the form, tiers and peers keep and pass on the form, and what
// it lacks to a sample of a batch is done when the batch needs it. Files as the source has them are
// no Form: nothing is made of them, and the batch's transform decodes them.
//
// Whatever the form, a sample comes out the same, bit for bit. So the id of a form names everything
// that the kept bytes depend on beside those of the file: another chain or another decoder finds
// nothing that was kept by this one.
//
// Immutable; any thread may use it, each with a Scratch of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "foreload/base/form_id.h"
#include "foreload/base/result.h"
#include "foreload/decode/transform.h"

namespace foreload {

class Form {
 public:
  virtual ~Form() = default;

  virtual FormId id() const = 0;
  // Whether finish() decodes something; if not, it only moves bytes.
  virtual bool finish_decodes() const = 0;
  // What is kept of a file of that size.
  virtual uint64_t bytes(uint64_t encoded) const = 0;

  // Fails with `invalid` as Transform::run() does. REQUIRES: `kept` has bytes() of the file's size
  // and is aligned to 64.
  virtual Result<void> make(std::span<const std::byte> file, std::span<std::byte> kept,
                            Scratch& scratch) const = 0;
  // Writes the sample to its place in a batch as Transform::run() does, with the same requirements.
  virtual Result<void> finish(std::span<const std::byte> kept, const SampleKey& key,
                              std::span<std::byte> into, Scratch& scratch) const = 0;
};

inline FormId form_id(const Form* form) {
  return form == nullptr ? kEncoded : form->id();
}

struct FormKind {
  std::string_view name;
  std::string_view help;  // one sentence
  // The form for samples that get this transform (null: none), null for files as the source has
  // them. Fails with `invalid` where it cannot be, and says why, to be read after "form 'NAME' ".
  Result<std::shared_ptr<const Form>> (*make)(std::shared_ptr<const Transform> transform);
};

// The first is the usual one.
std::span<const FormKind> forms();
// Fails with `invalid` for a name that is none of theirs, and as FormKind::make does.
Result<std::shared_ptr<const Form>> make_form(std::string_view name,
                                              std::shared_ptr<const Transform> transform);

}  // namespace foreload
