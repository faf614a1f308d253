// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/decoded_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace foreload {

std::optional<std::span<const std::byte>> SampleBytes::part(std::string_view name) const {
  if (name.empty()) return bytes;
  size_t first = 0;
  for (size_t i = 0; i < index.part_count(sample); ++i) {
    const Part part = index.part(sample, i);
    if (part.name == name) return bytes.subspan(first, part.length);
    first += part.length;
  }
  return std::nullopt;
}

std::string SampleBytes::told(std::string_view name) const {
  std::string_view store = index.store();
  if (store.starts_with("file://")) store.remove_prefix(std::string_view("file://").size());
  for (size_t i = 0; i < index.part_count(sample); ++i) {
    const Part part = index.part(sample, i);
    if (part.name == name)
      return fmt::format("part '{}' ({}/{})", name, store, index.object_name(part.object));
  }
  return fmt::format("part '{}'", name);
}

DecodedBatch::DecodedBatch(SampleTransform transform, std::shared_ptr<const Form> form)
    : transform_(std::move(transform)), form_(std::move(form)) {}

Result<std::shared_ptr<DecodedBatch>> DecodedBatch::open(SampleTransform transform,
                                                         std::shared_ptr<const Form> form,
                                                         size_t samples, Staging& staging) {
  std::shared_ptr<DecodedBatch> batch(new DecodedBatch(std::move(transform), std::move(form)));
  const auto& parts = batch->transform_.parts();
  std::vector<uint64_t> regions(parts.size());
  batch->apart_.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].transform) continue;
    if (parts[i].transform->form().fixed())
      regions[i] = samples * parts[i].transform->form().bytes();
    else
      batch->apart_[i].resize(samples);
  }
  if (std::ranges::any_of(regions, [](uint64_t bytes) { return bytes > 0; })) {
    FORELOAD_TRY(batch->slot_, staging.take(regions));
  }
  return batch;
}

std::span<std::byte> DecodedBatch::place_in(size_t part, uint32_t place) const {
  const uint64_t bytes = transform_.parts()[part].transform->form().bytes();
  return slot_->range(part).subspan(place * bytes, bytes);
}

Result<void> DecodedBatch::decode(uint32_t place, const SampleBytes& sample, const SampleKey& key,
                                  Scratch& scratch) {
  if (form_) return form_->finish(sample.bytes, key, place_in(0, place), scratch);
  const auto& parts = transform_.parts();
  std::vector<ImageSize> sizes(transform_.named() ? parts.size() : 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    const SampleTransform::Part& part = parts[i];
    const auto told = [&](std::string_view why) {
      if (part.name.empty()) return fail(ErrorKind::invalid, std::string(why));
      return fail(
          ErrorKind::invalid,
          fmt::format("{}{}{}: {}", sample.told(part.name), part.mask_of ? ", mask of " : "",
                      part.mask_of ? sample.told(parts[*part.mask_of].name) : "", why));
    };
    const auto bytes = sample.part(part.name);
    if (!bytes) return told("the sample has no part of this name");
    if (!part.transform) continue;
    std::optional<ImageSize> picture;
    if (part.mask_of) picture = sizes[*part.mask_of];
    ImageSize size;
    if (apart_[i].empty()) {
      auto done = part.transform->run(*bytes, key, place_in(i, place), scratch, picture);
      if (!done) return told(done.error().message);
      size = *done;
    } else {
      auto done = part.transform->run(*bytes, key, scratch, picture);
      if (!done) return told(done.error().message);
      size = done->file;
      apart_[i][place] = std::move(*done);
    }
    if (!sizes.empty()) sizes[i] = size;
  }
  return {};
}

void DecodedBatch::copy(uint32_t from, uint32_t to) {
  for (size_t i = 0; i < apart_.size(); ++i) {
    if (!transform_.parts()[i].transform) continue;
    if (!apart_[i].empty()) {
      apart_[i][to] = apart_[i][from];
    } else {
      const auto bytes = place_in(i, from);
      std::memcpy(place_in(i, to).data(), bytes.data(), bytes.size());
    }
  }
}

void DecodedBatch::give_to(Batch& batch) {
  const auto& parts = transform_.parts();
  for (size_t i = 0; i < parts.size(); ++i) {
    OutputForm form;
    std::span<std::byte> decoded;
    if (parts[i].transform) form = parts[i].transform->form();
    if (slot_) decoded = slot_->range(i);
    if (transform_.named()) {
      batch.parts.push_back({parts[i].name, form, decoded, std::move(apart_[i]), {}});
    } else {
      batch.form = form;
      batch.decoded = decoded;
      batch.apart = std::move(apart_[i]);
    }
  }
  if (slot_) batch.memory.push_back(std::move(slot_));
}

}  // namespace foreload
