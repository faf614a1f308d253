// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/form.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "foreload/decode/finished_form.h"

namespace foreload {
namespace {

Result<std::shared_ptr<const Form>> encoded_form(std::shared_ptr<const Transform>) {
  return nullptr;
}

constexpr std::array<FormKind, 2> kForms{{
    {"encoded", "files as the source has them", &encoded_form},
    {"finished", "samples as they lie in batches, of a transform that draws nothing",
     &finished_form},
}};

}  // namespace

std::span<const FormKind> forms() {
  return kForms;
}

Result<std::shared_ptr<const Form>> make_form(std::string_view name,
                                              std::shared_ptr<const Transform> transform) {
  const auto kind = std::ranges::find(kForms, name, &FormKind::name);
  if (kind == kForms.end()) {
    std::string known;
    for (const FormKind& one : kForms)
      known += fmt::format("{}'{}'", known.empty() ? "" : " or ", one.name);
    return fail(ErrorKind::invalid, fmt::format("there is no form '{}': use {}", name, known));
  }
  auto form = kind->make(std::move(transform));
  if (form) return form;
  return fail(form.error().kind, fmt::format("form '{}' {}", name, form.error().message));
}

}  // namespace foreload
