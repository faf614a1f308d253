// SPDX-License-Identifier: Apache-2.0
#include "foreload/dataset/index.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/descriptor.h"
#include "foreload/base/files.h"
#include "foreload/dataset/index_format.h"

namespace foreload {
namespace {

// The flaw_in_...() functions below say what is wrong with an index, null if nothing is. They run
// in this order, each relies on those before it, and together they are what lets the accessors do
// without any check.

const char* flaw_in_header(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(IndexHeader)) return "it is truncated";
  const auto& header = *reinterpret_cast<const IndexHeader*>(bytes.data());
  if (header.header_checksum != header_checksum(header)) return "checksum mismatch in the header";
  if (header.file_bytes > bytes.size()) return "it is truncated";
  if (header.file_bytes < bytes.size()) return "it is longer than its header says";
  if (header.body_checksum != checksum64(bytes.subspan(sizeof(IndexHeader)))) {
    return "checksum mismatch";
  }
  if ((header.flags & ~(kIndexPlain | kIndexNamed)) != 0) return "it has unknown flags";
  return nullptr;
}

bool holds(const SectionPlace& place, uint64_t count, uint64_t width) {
  return place.bytes % width == 0 && place.bytes / width == count;
}

bool holds_table(const SectionPlace& place, uint64_t strings) {
  return place.bytes / sizeof(uint64_t) >= strings + 1;
}

const char* flaw_in_sections(const IndexHeader& header) {
  const uint64_t size = header.file_bytes;
  // Everything counted takes at least a byte, so beyond this no sum of counts can overflow.
  for (uint64_t count : {header.objects, header.samples, header.parts, header.part_names,
                         header.classes, header.folders}) {
    if (count > size) return "its header counts more entries than the file can hold";
  }
  if (header.objects > UINT32_MAX) return "it has too many objects";
  if (header.samples == 0) return "it has no samples";
  for (const SectionPlace& place : header.sections) {
    if (place.offset % kIndexAlignment != 0) return "a section is not aligned";
    if (place.offset < sizeof(IndexHeader) || place.offset > size ||
        place.bytes > size - place.offset) {
      return "a section lies outside the file";
    }
  }
  const bool plain = (header.flags & kIndexPlain) != 0;
  const bool named = (header.flags & kIndexNamed) != 0;
  if (plain && (header.samples != header.objects || header.parts != 0)) {
    return "its counts of samples, objects and parts contradict each other";
  }
  using enum IndexSection;
  const bool right =
      holds(header.place(object_sizes), header.objects, sizeof(uint64_t)) &&
      holds(header.place(object_versions), header.objects, sizeof(uint64_t)) &&
      holds(header.place(name_bases), header.objects / kNameBlock + 1, sizeof(uint64_t)) &&
      holds(header.place(name_offsets), header.objects + 1, sizeof(uint32_t)) &&
      holds(header.place(labels), header.samples, sizeof(uint32_t)) &&
      holds(header.place(first_parts), plain ? 0 : header.samples + 1, sizeof(uint64_t)) &&
      holds(header.place(parts), header.parts, sizeof(StoredPart)) &&
      holds_table(header.place(part_names), header.part_names) &&
      holds_table(header.place(class_names), header.classes) &&
      holds_table(header.place(folder_names), header.folders) &&
      holds_table(header.place(store), 1) &&
      holds(header.place(folder_times), header.folders, sizeof(uint64_t)) &&
      holds(header.place(sample_name_bases), named ? header.samples / kNameBlock + 1 : 0,
            sizeof(uint64_t)) &&
      holds(header.place(sample_name_offsets), named ? header.samples + 1 : 0, sizeof(uint32_t));
  return right ? nullptr : "a section has the wrong size";
}

// Whether the places begin at 0, never go back, and end where the text does.
template <class Place>
bool fills_text(uint64_t count, uint64_t text_bytes, const Place& place) {
  uint64_t last = 0;
  if (place(0) != 0) return false;
  for (uint64_t i = 1; i <= count; ++i) {
    const uint64_t next = place(i);
    if (next < last) return false;
    last = next;
  }
  return last == text_bytes;
}

bool table_fills(const StringTable& table, uint64_t strings, const SectionPlace& place) {
  return fills_text(strings, place.bytes - (strings + 1) * sizeof(uint64_t),
                    [&table](uint64_t i) { return table.places[i]; });
}

bool names_fill(const NameTable& names, uint64_t count, const SectionPlace& text) {
  for (uint64_t block = 0; block <= count / kNameBlock; ++block) {
    if (names.bases[block] > text.bytes) return false;
  }
  return fills_text(count, text.bytes, [&names](uint64_t i) { return names.place(i); });
}

// A template because Storage, a private type, cannot be named here.
template <class Storage>
const char* flaw_in_contents(const Storage& storage) {
  const IndexHeader& header = *storage.header;
  using enum IndexSection;
  if (!names_fill(storage.names, header.objects, header.place(names)) ||
      (storage.named &&
       !names_fill(storage.sample_names, header.samples, header.place(sample_names)))) {
    return "a name lies outside the section of names";
  }
  if (!table_fills(storage.part_names, header.part_names, header.place(part_names)) ||
      !table_fills(storage.class_names, header.classes, header.place(class_names)) ||
      !table_fills(storage.folder_names, header.folders, header.place(folder_names)) ||
      !table_fills(storage.store, 1, header.place(store))) {
    return "the name of a part, class, folder or store lies outside its section";
  }
  for (uint64_t i = 0; header.classes > 0 && i < header.samples; ++i) {
    if (storage.labels[i] >= header.classes)
      return "the label of a sample is not among its classes";
  }
  if (storage.plain) return nullptr;

  const uint64_t* first = storage.first_parts;
  if (first[0] != 0 || first[header.samples] != header.parts) return "a part belongs to no sample";
  for (uint64_t i = 0; i < header.samples; ++i) {
    // Checked against the end as well: the order of what comes later is not known yet.
    if (first[i] >= first[i + 1] || first[i + 1] > header.parts) return "a sample has no parts";
    uint64_t sample_size = 0;
    for (uint64_t p = first[i]; p < first[i + 1]; ++p) {
      const StoredPart& part = storage.parts[p];
      if (part.object >= header.objects) return "a part lies in an object that does not exist";
      if (part.name >= header.part_names) return "a part has no name";
      if (part_flaw(part.offset, part.length, storage.object_sizes[part.object]) != nullptr) {
        return "a part lies outside its object";
      }
      if (!add_length(sample_size, part.length)) return "a sample is larger than 2^64 - 1 bytes";
    }
  }
  return nullptr;
}

}  // namespace

DatasetIndex::Storage::~Storage() {
  if (mapped != nullptr) ::munmap(mapped, bytes.size());
}

void DatasetIndex::Storage::find_sections() {
  header = reinterpret_cast<const IndexHeader*>(bytes.data());
  plain = (header->flags & kIndexPlain) != 0;
  named = (header->flags & kIndexNamed) != 0;
  auto set = [this](auto& pointer, IndexSection section) {
    using Pointer = std::remove_reference_t<decltype(pointer)>;
    pointer = reinterpret_cast<Pointer>(bytes.data() + header->place(section).offset);
  };
  set(object_sizes, IndexSection::object_sizes);
  set(object_versions, IndexSection::object_versions);
  set(names.bases, IndexSection::name_bases);
  set(names.offsets, IndexSection::name_offsets);
  set(names.text, IndexSection::names);
  set(labels, IndexSection::labels);
  set(first_parts, IndexSection::first_parts);
  set(parts, IndexSection::parts);
  set(part_names.places, IndexSection::part_names);
  part_names.text = reinterpret_cast<const char*>(part_names.places + header->part_names + 1);
  set(class_names.places, IndexSection::class_names);
  class_names.text = reinterpret_cast<const char*>(class_names.places + header->classes + 1);
  set(folder_names.places, IndexSection::folder_names);
  folder_names.text = reinterpret_cast<const char*>(folder_names.places + header->folders + 1);
  set(folder_times, IndexSection::folder_times);
  set(sample_names.bases, IndexSection::sample_name_bases);
  set(sample_names.offsets, IndexSection::sample_name_offsets);
  set(sample_names.text, IndexSection::sample_names);
  set(store.places, IndexSection::store);
  store.text = reinterpret_cast<const char*>(store.places + 2);
}

DatasetIndex::DatasetIndex(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
DatasetIndex::DatasetIndex(DatasetIndex&&) noexcept = default;
DatasetIndex& DatasetIndex::operator=(DatasetIndex&&) noexcept = default;
DatasetIndex::~DatasetIndex() = default;

Result<DatasetIndex> DatasetIndex::load(const std::filesystem::path& file) {
  auto unreadable = [&file](std::string_view why) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot load index {}: {}; check the path, or list the folder again",
                            file.native(), why));
  };
  // Without O_NONBLOCK a pipe of that name would stop the program here.
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!in || ::fstat(in.get(), &status) != 0) return unreadable(system_message(errno));
  if (!S_ISREG(status.st_mode)) return unreadable("it is not a file");
  const auto size = static_cast<size_t>(status.st_size);

  auto storage = std::make_unique<Storage>();
  if (size > 0) {
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, in.get(), 0);
    if (mapped == MAP_FAILED) return unreadable(system_message(errno));
    storage->mapped = mapped;
    storage->bytes = {static_cast<const std::byte*>(mapped), size};
  }
  return checked(std::move(storage), fmt::format("index {}", file.native()));
}

Result<DatasetIndex> DatasetIndex::parse(std::span<const std::byte> image) {
  auto storage = std::make_unique<Storage>();
  storage->built = std::make_unique_for_overwrite<std::byte[]>(image.size());
  std::ranges::copy(image, storage->built.get());
  storage->bytes = {storage->built.get(), image.size()};
  return checked(std::move(storage), "an index that was sent");
}

Result<DatasetIndex> DatasetIndex::checked(std::unique_ptr<Storage> storage, std::string_view who) {
  auto cannot = [who](std::string_view why, std::string_view remedy) {
    return fail(ErrorKind::corrupt, fmt::format("cannot load {}: {}; {}", who, why, remedy));
  };
  const std::span bytes = storage->bytes;
  constexpr size_t kVersionEnd = offsetof(IndexHeader, version) + sizeof(IndexHeader::version);
  if (bytes.size() < kVersionEnd ||
      std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) != 0) {
    return cannot("it is not a foreload index", "check the path");
  }
  uint32_t version = 0;
  std::memcpy(&version, bytes.data() + offsetof(IndexHeader, version), sizeof version);
  if (version != kIndexVersion) {
    return cannot(
        fmt::format("it has format version {} and this foreload reads {}", version, kIndexVersion),
        "delete it and list the folder again");
  }
  const char* flaw = flaw_in_header(bytes);
  if (flaw == nullptr) flaw = flaw_in_sections(*reinterpret_cast<const IndexHeader*>(bytes.data()));
  if (flaw == nullptr) {
    storage->find_sections();
    flaw = flaw_in_contents(*storage);
  }
  if (flaw != nullptr) {
    return cannot(flaw, "delete it and list the folder again");
  }
  return DatasetIndex(std::move(storage));
}

bool DatasetIndex::outdated(const std::filesystem::path& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, offsetof(IndexHeader, version) + sizeof(IndexHeader::version)> start;
  if (::read(in.get(), start.data(), start.size()) != static_cast<ssize_t>(start.size()) ||
      std::memcmp(start.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
    return false;
  uint32_t version = 0;
  std::memcpy(&version, start.data() + offsetof(IndexHeader, version), sizeof version);
  return version < kIndexVersion;
}

Result<void> DatasetIndex::save(const std::filesystem::path& file) const {
  auto cannot = [&file, this](int error) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot save index {}: {}; check that its folder exists, is writable "
                            "and has room for {}",
                            file.native(), system_message(error), format_bytes(bytes())));
  };
  if (const int error = replace_file(file, storage_->bytes)) return cannot(error);
  return {};
}

uint64_t DatasetIndex::samples() const {
  return storage_->header->samples;
}
uint64_t DatasetIndex::objects() const {
  return storage_->header->objects;
}
bool DatasetIndex::plain() const {
  return storage_->plain;
}
size_t DatasetIndex::classes() const {
  return storage_->header->classes;
}
std::span<const std::byte> DatasetIndex::image() const {
  return storage_->bytes;
}

Digest DatasetIndex::fingerprint() const {
  return {storage_->header->fingerprint_high, storage_->header->fingerprint_low};
}

std::string_view DatasetIndex::store() const {
  return storage_->store[0];
}

std::string_view DatasetIndex::object_name(uint64_t object) const {
  assert(object < objects());
  return storage_->names[object];
}

uint64_t DatasetIndex::object_size(uint64_t object) const {
  assert(object < objects());
  return storage_->object_sizes[object];
}

uint64_t DatasetIndex::object_version(uint64_t object) const {
  assert(object < objects());
  return storage_->object_versions[object];
}

uint32_t DatasetIndex::label(uint64_t sample) const {
  assert(sample < samples());
  return storage_->labels[sample];
}

size_t DatasetIndex::part_count(uint64_t sample) const {
  assert(sample < samples());
  if (storage_->plain) return 1;
  return storage_->first_parts[sample + 1] - storage_->first_parts[sample];
}

Part DatasetIndex::part(uint64_t sample, size_t i) const {
  assert(i < part_count(sample));
  if (storage_->plain) {
    return {static_cast<uint32_t>(sample), 0, storage_->object_sizes[sample], {}};
  }
  const StoredPart& part = storage_->parts[storage_->first_parts[sample] + i];
  return {part.object, part.offset, part.length, storage_->part_names[part.name]};
}

std::string_view DatasetIndex::sample_name(uint64_t sample) const {
  if (storage_->named && !storage_->sample_names[sample].empty())
    return storage_->sample_names[sample];
  return object_name(part(sample, 0).object);
}

// Where the store ends and a name begins does not count: a subset may have a deeper store.
Digest DatasetIndex::content(uint64_t sample) const {
  std::string told;
  const auto tell = [&told](uint64_t number) {
    told.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const size_t parts = part_count(sample);
  for (size_t i = 0; i < parts; ++i) {
    const Part one = part(sample, i);
    const std::string_view name = object_name(one.object);
    const size_t length = store().size() + 1 + name.size();
    if (i == 0) told.reserve(parts * (length + 4 * sizeof(uint64_t)));  // asked for every sample
    tell(length);
    told.append(store()).append("/").append(name);
    tell(object_version(one.object));
    tell(one.offset);
    tell(one.length);
  }
  return digest_of(told);
}

uint64_t DatasetIndex::sample_version(uint64_t sample) const {
  const uint32_t first = part(sample, 0).object;
  uint64_t version = object_version(first);
  // Each object that a sample is made of can change without the others.
  for (size_t i = 1; i < part_count(sample); ++i) {
    const uint32_t object = part(sample, i).object;
    if (object != first) version = version * 0x9E3779B97F4A7C15 + object_version(object);
  }
  return version;
}

uint64_t DatasetIndex::sample_size(uint64_t sample) const {
  assert(sample < samples());
  if (storage_->plain) return storage_->object_sizes[sample];
  uint64_t sum = 0;
  for (uint64_t p = storage_->first_parts[sample]; p < storage_->first_parts[sample + 1]; ++p) {
    const uint64_t length = storage_->parts[p].length;
    if (length == kUnknownSize) return kUnknownSize;
    sum += length;
  }
  return sum;
}

std::vector<uint64_t> DatasetIndex::sample_sizes() const {
  std::vector<uint64_t> sizes(samples());
  for (uint64_t i = 0; i < sizes.size(); ++i) sizes[i] = sample_size(i);
  return sizes;
}

std::string_view DatasetIndex::class_name(size_t label) const {
  assert(label < classes());
  return storage_->class_names[label];
}

size_t DatasetIndex::folders() const {
  return storage_->header->folders;
}

std::string_view DatasetIndex::folder_name(size_t i) const {
  assert(i < folders());
  return storage_->folder_names[i];
}

uint64_t DatasetIndex::folder_time(size_t i) const {
  assert(i < folders());
  return storage_->folder_times[i];
}

}  // namespace foreload
