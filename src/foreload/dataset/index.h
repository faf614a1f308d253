// SPDX-License-Identifier: Apache-2.0
//
// The data-set index: which samples exist, where their bytes are, how large they are, their names
// and their labels. A sample is a list of parts, a part is a range of an object; the plain case,
// one whole file per sample, takes 24 bytes a sample beside the names.
//
// An index is built once by an IndexBuilder, saved, and loaded by mapping the file into memory, so
// that a second start neither lists nor stats anything. docs/formats.md describes the file byte by
// byte. A DatasetIndex is immutable: any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/result.h"
#include "foreload/base/unknown_size.h"

namespace foreload {

// What a sample consists of: `length` bytes of object `object` from `offset`. `name` tells parts of
// one sample apart ("jpg", "cls") and is empty where there is only one.
struct Part {
  uint32_t object = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  std::string_view name;
};

class DatasetIndex {
 public:
  // Maps a saved index. Fails with `unreadable` if the file cannot be read, `corrupt` if it is
  // not an index, is cut short, or fails its checksum or any bound. Nobody may change the file in
  // place while it is mapped; replacing it, as save() does, is fine.
  static Result<DatasetIndex> load(const std::filesystem::path& file);
  // The same for bytes as image() gives them, which are copied.
  static Result<DatasetIndex> parse(std::span<const std::byte> image);
  // Whether the file is an index of a version that this foreload does not read any more.
  static bool outdated(const std::filesystem::path& file);
  // Writes to a temporary file beside `file`, syncs, and renames, so that `file` is always a whole
  // index. Fails with `unreadable`.
  Result<void> save(const std::filesystem::path& file) const;

  DatasetIndex(DatasetIndex&&) noexcept;
  DatasetIndex& operator=(DatasetIndex&&) noexcept;
  ~DatasetIndex();

  uint64_t samples() const;
  uint64_t objects() const;
  // True where every sample is one whole object of the same number and its part has no name.
  bool plain() const;

  // URI of the store that the objects are in: "file:///data/train".
  std::string_view store() const;

  // REQUIRES: object < objects().
  std::string_view object_name(uint64_t object) const;  // relative to the store
  uint64_t object_size(uint64_t object) const;          // kUnknownSize if nobody knows
  uint64_t object_version(uint64_t object) const;       // opaque; changes when the object does

  // REQUIRES: sample < samples().
  std::string_view sample_name(uint64_t sample) const;  // its own, or that of its first object
  uint32_t label(uint64_t sample) const;
  size_t part_count(uint64_t sample) const;
  Part part(uint64_t sample, size_t i) const;   // REQUIRES: i < part_count(sample)
  uint64_t sample_size(uint64_t sample) const;  // sum of its parts, kUnknownSize if one is unknown
  uint64_t sample_version(uint64_t sample) const;  // of all objects that its parts are in
  // What a sample's bytes are, wherever it is listed: store, objects, their versions, and the
  // extents of its parts. Equal for equal samples of data sets that differ in others.
  Digest content(uint64_t sample) const;
  std::vector<uint64_t> sample_sizes() const;  // of all samples

  size_t classes() const;
  std::string_view class_name(size_t label) const;  // REQUIRES: label < classes()

  // Folders that were listed to find the objects, and when each was last changed then, in
  // nanoseconds since 1970: what tells that the listing is out of date. None for a list of files.
  size_t folders() const;
  std::string_view folder_name(size_t i) const;  // REQUIRES: i < folders()
  uint64_t folder_time(size_t i) const;          // REQUIRES: i < folders()

  // Says which samples these are: object names and how samples are cut out of them, in order.
  // Leaves out sizes, versions, labels and folders: a sample that changed is told by its version,
  // so that one new file does not make every cached sample a stranger.
  Digest fingerprint() const;
  // The index itself, as in memory and on disk.
  std::span<const std::byte> image() const;
  uint64_t bytes() const { return image().size(); }

 private:
  friend class IndexBuilder;
  struct Storage;
  explicit DatasetIndex(std::unique_ptr<Storage> storage);
  // Checks everything. `who` is it, for messages.
  static Result<DatasetIndex> checked(std::unique_ptr<Storage> storage, std::string_view who);

  std::unique_ptr<Storage> storage_;
};

// Collects objects and samples in order. For one thread. Either add_file() for every sample, or
// add_object() and add_sample(); a set in which sample i is the whole of object i, as with
// add_file() alone, is stored in the plain form.
class IndexBuilder {
 public:
  IndexBuilder();
  ~IndexBuilder();

  // Gives the next label, 0 for the first call, the name `name` and returns it. With no class
  // named, samples may have any label.
  uint32_t add_class(std::string_view name);
  // Where the objects are; see DatasetIndex::store().
  void set_store(std::string_view uri);
  // A folder in which objects were found, relative to the store.
  void add_folder(std::string_view name, uint64_t time);
  // Fails with `invalid` beyond 2^32 - 1 objects, or 4 GiB of names in 65,536 objects.
  Result<uint32_t> add_object(std::string_view name, uint64_t size, uint64_t version);
  // Fails with `invalid` if there is no part, or a part lies outside its object or names an object
  // that is not there. Only in an object of unknown size may a part have the length kUnknownSize.
  // Without a name of its own a sample is called as its first object is.
  Result<void> add_sample(std::span<const Part> parts, uint32_t label, std::string_view name = {});
  // One object that is one sample.
  Result<void> add_file(std::string_view name, uint64_t size, uint64_t version, uint32_t label);

  // The builder is empty afterwards, whatever the outcome. Fails with `invalid` for a set without
  // samples, and for a label without a class where there are classes.
  Result<DatasetIndex> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foreload
