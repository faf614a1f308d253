// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "foreload/dataset/index.h"
#include "foreload/dataset/index_format.h"

namespace foreload {

namespace {

// The parts of a NameTable while names are added.
struct GrowingNames {
  std::vector<uint64_t> bases;
  std::vector<uint32_t> offsets;
  std::string text;

  // False if the names of a block would exceed 4 GiB; then nothing is added.
  bool add(std::string_view name) {
    const bool starts_block = offsets.size() % kNameBlock == 0;
    const uint64_t base = starts_block ? text.size() : bases.back();
    const uint64_t used = text.size() - base;
    if (name.size() > UINT32_MAX - used) return false;
    if (starts_block) bases.push_back(base);
    offsets.push_back(static_cast<uint32_t>(used));
    text.append(name);
    return true;
  }
  void finish() {
    if (offsets.size() % kNameBlock == 0) bases.push_back(text.size());
    offsets.push_back(static_cast<uint32_t>(text.size() - bases.back()));
  }
};

}  // namespace

struct IndexBuilder::State {
  std::string store;
  std::vector<uint64_t> object_sizes;
  std::vector<uint64_t> object_versions;
  GrowingNames names;
  GrowingNames sample_names;  // empty while no sample has a name of its own
  std::vector<uint32_t> labels;
  uint64_t highest_labelled = 0;  // the first sample with the highest label so far

  // While every sample so far is the whole object of its own number, nothing is kept about parts.
  bool plain = true;
  std::vector<uint64_t> first_parts;
  std::vector<StoredPart> parts;
  std::vector<std::string> part_names;  // in order of first use
  std::unordered_map<std::string, uint32_t> part_name_ids;

  std::vector<std::string> class_names;
  std::vector<std::string> folder_names;
  std::vector<uint64_t> folder_times;

  template <class PartOrStored>
  bool is_whole(const PartOrStored& part) const {
    return part.offset == 0 && part.length == object_sizes[part.object];
  }
  uint32_t part_name_id(std::string_view name);
  void leave_plain_form();
  Digest fingerprint() const;
};

namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<std::byte> string_table(const std::vector<std::string>& strings) {
  std::vector<uint64_t> places{0};
  for (const std::string& string : strings) places.push_back(places.back() + string.size());
  std::vector<std::byte> table;
  table.reserve(places.size() * sizeof(uint64_t) + places.back());
  const auto append = [&table](std::span<const std::byte> bytes) {
    table.insert(table.end(), bytes.begin(), bytes.end());
  };
  append(bytes_of(places));
  for (const std::string& string : strings) append(std::as_bytes(std::span(string)));
  return table;
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + kIndexAlignment - 1) / kIndexAlignment * kIndexAlignment;
}

}  // namespace

uint32_t IndexBuilder::State::part_name_id(std::string_view name) {
  const auto [place, added] =
      part_name_ids.try_emplace(std::string(name), static_cast<uint32_t>(part_names.size()));
  if (added) part_names.emplace_back(name);
  return place->second;
}

void IndexBuilder::State::leave_plain_form() {
  plain = false;
  for (uint32_t i = 0; i < labels.size(); ++i) {
    first_parts.push_back(i);
    parts.push_back({0, object_sizes[i], i, part_name_id({})});
  }
}

// A whole object is recorded as such, without its length: how long it is counts as its size.
Digest IndexBuilder::State::fingerprint() const {
  Digester digester;
  digester.add(std::string_view("foreload samples, 1")).add(plain);
  digester.add(static_cast<uint64_t>(object_sizes.size()));
  const NameTable table{names.bases.data(), names.offsets.data(), names.text.data()};
  for (size_t i = 0; i < object_sizes.size(); ++i) digester.add(table[i]);
  if (plain) return digester.digest();

  digester.add(static_cast<uint64_t>(labels.size()));
  for (size_t i = 0; i < labels.size(); ++i) {
    digester.add(first_parts[i + 1] - first_parts[i]);
    for (uint64_t p = first_parts[i]; p < first_parts[i + 1]; ++p) {
      const StoredPart& part = parts[p];
      const bool whole = is_whole(part);
      digester.add(part.object).add(whole);
      if (!whole) digester.add(part.offset).add(part.length);
      digester.add(std::string_view(part_names[part.name]));
    }
  }
  return digester.digest();
}

IndexBuilder::IndexBuilder() : state_(std::make_unique<State>()) {}
IndexBuilder::~IndexBuilder() = default;

uint32_t IndexBuilder::add_class(std::string_view name) {
  state_->class_names.emplace_back(name);
  return static_cast<uint32_t>(state_->class_names.size() - 1);
}

void IndexBuilder::set_store(std::string_view uri) {
  state_->store = uri;
}

void IndexBuilder::add_folder(std::string_view name, uint64_t time) {
  state_->folder_names.emplace_back(name);
  state_->folder_times.push_back(time);
}

Result<uint32_t> IndexBuilder::add_object(std::string_view name, uint64_t size, uint64_t version) {
  State& state = *state_;
  const uint64_t object = state.object_sizes.size();
  if (object == UINT32_MAX) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot add object {}: an index holds at most 2^32 - 1 objects; put "
                            "several samples into one object",
                            object));
  }
  if (!state.names.add(name)) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot add object {}: the names of {} objects in a row would exceed "
                            "4 GiB; use shorter names",
                            object, kNameBlock));
  }
  state.object_sizes.push_back(size);
  state.object_versions.push_back(version);
  return static_cast<uint32_t>(object);
}

Result<void> IndexBuilder::add_sample(std::span<const Part> parts, uint32_t label,
                                      std::string_view name) {
  State& state = *state_;
  const uint64_t sample = state.labels.size();
  auto refuse = [sample](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("cannot add sample {}: {}", sample, why));
  };
  if (parts.empty()) return refuse("it has no parts; leave it out");
  uint64_t sample_size = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.object >= state.object_sizes.size()) {
      return refuse(
          fmt::format("its part {} is in object {}, and there are {} objects; add the "
                      "object first",
                      i, part.object, state.object_sizes.size()));
    }
    const uint64_t size = state.object_sizes[part.object];
    if (const char* flaw = part_flaw(part.offset, part.length, size)) {
      return refuse(
          fmt::format("its part {} (offset {}, length {}, object {} of size {}) {}; check "
                      "where the object's table of contents comes from",
                      i, part.offset, part.length, part.object, size, flaw));
    }
    if (!add_length(sample_size, part.length)) {
      return refuse("its parts add up to more than 2^64 - 2 bytes; check their lengths");
    }
  }

  while (!name.empty() && state.sample_names.offsets.size() < sample) state.sample_names.add({});
  if ((!name.empty() || !state.sample_names.offsets.empty()) && !state.sample_names.add(name)) {
    return refuse(fmt::format(
        "the names of {} samples in a row would exceed 4 GiB; use shorter names", kNameBlock));
  }
  const bool whole_object = parts.size() == 1 && parts[0].object == sample &&
                            parts[0].name.empty() && state.is_whole(parts[0]);
  if (state.plain && !whole_object) state.leave_plain_form();
  if (!state.plain) {
    state.first_parts.push_back(state.parts.size());
    for (const Part& part : parts) {
      state.parts.push_back({part.offset, part.length, part.object, state.part_name_id(part.name)});
    }
  }
  state.labels.push_back(label);
  if (label > state.labels[state.highest_labelled]) state.highest_labelled = sample;
  return {};
}

Result<void> IndexBuilder::add_file(std::string_view name, uint64_t size, uint64_t version,
                                    uint32_t label) {
  FORELOAD_TRY(const uint32_t object, add_object(name, size, version));
  const Part whole{object, 0, size, {}};
  return add_sample(std::span(&whole, 1), label);
}

Result<DatasetIndex> IndexBuilder::finish() {
  const std::unique_ptr<State> taken = std::exchange(state_, std::make_unique<State>());
  State& state = *taken;
  if (state.labels.empty()) {
    return fail(ErrorKind::invalid,
                "cannot build an index: there are no samples; add at least one");
  }
  const uint32_t highest = state.labels[state.highest_labelled];
  if (!state.class_names.empty() && highest >= state.class_names.size()) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot build an index: sample {} has label {}, and there are {} "
                            "classes; name every class, or none",
                            state.highest_labelled, highest, state.class_names.size()));
  }
  // An object that no sample uses makes numbers of samples and objects differ.
  if (state.plain && state.labels.size() != state.object_sizes.size()) state.leave_plain_form();
  if (!state.plain) state.first_parts.push_back(state.parts.size());
  const bool named = !state.sample_names.offsets.empty();
  state.names.finish();
  if (named) state.sample_names.finish();

  const std::vector<std::byte> part_names = string_table(state.part_names);
  const std::vector<std::byte> class_names = string_table(state.class_names);
  const std::vector<std::byte> folder_names = string_table(state.folder_names);
  const std::vector<std::byte> store = string_table({state.store});
  // In the order of IndexSection.
  const std::array<std::span<const std::byte>, kIndexSections> sections{
      bytes_of(state.object_sizes),
      bytes_of(state.object_versions),
      bytes_of(state.names.bases),
      bytes_of(state.names.offsets),
      std::as_bytes(std::span(state.names.text)),
      bytes_of(state.labels),
      bytes_of(state.first_parts),
      bytes_of(state.parts),
      part_names,
      class_names,
      folder_names,
      bytes_of(state.folder_times),
      store,
      bytes_of(state.sample_names.bases),
      bytes_of(state.sample_names.offsets),
      std::as_bytes(std::span(state.sample_names.text))};

  const Digest fingerprint = state.fingerprint();
  IndexHeader header{.magic = kIndexMagic,
                     .version = kIndexVersion,
                     .flags = (state.plain ? kIndexPlain : 0) | (named ? kIndexNamed : 0),
                     .file_bytes = sizeof(IndexHeader),
                     .objects = state.object_sizes.size(),
                     .samples = state.labels.size(),
                     .parts = state.parts.size(),
                     .part_names = state.part_names.size(),
                     .classes = state.class_names.size(),
                     .folders = state.folder_names.size(),
                     .fingerprint_high = fingerprint.high,
                     .fingerprint_low = fingerprint.low,
                     .sections = {},
                     .body_checksum = 0,
                     .header_checksum = 0};
  for (size_t i = 0; i < kIndexSections; ++i) {
    header.sections[i] = {header.file_bytes, sections[i].size()};
    header.file_bytes += aligned(sections[i].size());
  }

  auto storage = std::make_unique<DatasetIndex::Storage>();
  storage->built = std::make_unique_for_overwrite<std::byte[]>(header.file_bytes);
  storage->bytes = {storage->built.get(), header.file_bytes};
  for (size_t i = 0; i < kIndexSections; ++i) {
    std::byte* to = std::copy(sections[i].begin(), sections[i].end(),
                              storage->built.get() + header.sections[i].offset);
    std::fill_n(to, aligned(sections[i].size()) - sections[i].size(), std::byte{0});
  }
  header.body_checksum = checksum64(storage->bytes.subspan(sizeof header));
  header.header_checksum = header_checksum(header);
  std::memcpy(storage->built.get(), &header, sizeof header);
  storage->find_sections();
  return DatasetIndex(std::move(storage));
}

}  // namespace foreload
