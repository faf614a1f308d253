// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/finished_form.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "foreload/base/hash.h"

namespace foreload {
namespace {

// Of the kept bytes: one picture behind another, as OutputForm says.
constexpr uint64_t kFinishedLayout = 1;

class FinishedForm : public Form {
 public:
  explicit FinishedForm(std::shared_ptr<const Transform> transform)
      : transform_(std::move(transform)),
        id_(Digester()
                .add(std::string_view("finished"))
                .add(kFinishedLayout)
                .add(transform_->recipe())
                .digest()
                .low) {}

  FormId id() const override { return id_; }
  bool finish_decodes() const override { return false; }
  uint64_t bytes(uint64_t) const override { return transform_->form().bytes(); }

  Result<void> make(std::span<const std::byte> file, std::span<std::byte> kept,
                    Scratch& scratch) const override {
    FORELOAD_CHECK(transform_->run(file, SampleKey{}, kept, scratch));  // nothing is drawn
    return {};
  }
  Result<void> finish(std::span<const std::byte> kept, const SampleKey&, std::span<std::byte> into,
                      Scratch&) const override {
    assert(kept.size() == into.size());
    std::memcpy(into.data(), kept.data(), kept.size());
    return {};
  }

 private:
  const std::shared_ptr<const Transform> transform_;
  const FormId id_;
};

}  // namespace

Result<std::shared_ptr<const Form>> finished_form(std::shared_ptr<const Transform> transform) {
  if (!transform)
    return fail(ErrorKind::invalid,
                "keeps what a transform gives, and there is none that C++ runs: give a transform, "
                "or use form 'encoded'");
  if (transform->random())
    return fail(ErrorKind::invalid,
                "keeps what the transform gives, which is random and differs from epoch to epoch: "
                "use form 'encoded', or a transform without random steps");
  if (!transform->form().fixed())
    return fail(ErrorKind::invalid,
                "needs samples of one size, and the transform gives each its own: end it with a "
                "Resize or a crop to (height, width), or use form 'encoded'");
  if (transform->packs())
    return fail(ErrorKind::invalid,
                "keeps what the CPU decodes, and a GPU decodes here: use decoder='cpu', or form "
                "'encoded'");
  return std::make_shared<const FinishedForm>(std::move(transform));
}

}  // namespace foreload
