// SPDX-License-Identifier: Apache-2.0
#include "foreload/dataset/index.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "foreload/dataset/index_format.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

class IndexTest : public testing::Test {
 protected:
  void SetUp() override { file_ = folder_ / "set.index"; }

  Result<DatasetIndex> load_bytes(std::span<const char> bytes) const {
    // Resized and overwritten: ext4 flushes a file that was truncated to nothing and rewritten.
    if (!fs::exists(file_)) std::ofstream{file_};
    fs::resize_file(file_, bytes.size());
    std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return DatasetIndex::load(file_);
  }

  std::vector<char> saved_bytes(const DatasetIndex& index) const {
    EXPECT_TRUE(index.save(file_));
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  DatasetIndex reloaded(const DatasetIndex& index) const {
    EXPECT_TRUE(index.save(file_));
    return DatasetIndex::load(file_).value();
  }

  size_t entries_in_folder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  fs::path file_;
};

DatasetIndex plain_index() {
  IndexBuilder builder;
  builder.add_class("cat");
  builder.add_class("dog");
  EXPECT_TRUE(builder.add_file("cat/1.jpg", 100, 11, 0));
  EXPECT_TRUE(builder.add_file("cat/2.jpg", kUnknownSize, 12, 0));
  EXPECT_TRUE(builder.add_file("dog/1.jpg", 300, 13, 1));
  return builder.finish().value();
}

// Two archives; the second one's size is not known.
DatasetIndex general_index() {
  IndexBuilder builder;
  builder.add_class("cat");
  builder.add_class("dog");
  builder.add_folder("", 5);
  builder.add_folder("tars", 7);
  builder.set_store("file:///data");
  EXPECT_TRUE(builder.add_object("a.tar", 1000, 1));
  EXPECT_TRUE(builder.add_object("b.tar", kUnknownSize, 2));
  const Part first[] = {{0, 0, 500, "jpg"}, {0, 512, 4, "cls"}};
  const Part second[] = {{1, 100, 50, "jpg"}, {0, 600, 400, "cls"}};
  const Part third[] = {{1, 512, kUnknownSize, "jpg"}};
  EXPECT_TRUE(builder.add_sample(first, 0));
  EXPECT_TRUE(builder.add_sample(second, 1, "second"));
  EXPECT_TRUE(builder.add_sample(third, 1));
  return builder.finish().value();
}

// Touches every byte that the accessors can reach.
uint64_t walk(const DatasetIndex& index) {
  uint64_t sum = index.fingerprint().low + index.bytes();
  auto add = [&sum](std::string_view text) {
    for (char c : text) sum += static_cast<unsigned char>(c);
  };
  for (uint64_t i = 0; i < index.objects(); ++i) {
    add(index.object_name(i));
    sum += index.object_size(i) + index.object_version(i);
  }
  add(index.store());
  for (uint64_t i = 0; i < index.samples(); ++i) {
    add(index.sample_name(i));
    sum += index.content(i).low;
    if (index.classes() > 0) add(index.class_name(index.label(i)));
    sum += index.sample_size(i);
    for (size_t p = 0; p < index.part_count(i); ++p) {
      const Part part = index.part(i, p);
      add(part.name);
      add(index.object_name(part.object));
      sum += part.offset + part.length;
    }
  }
  for (size_t i = 0; i < index.classes(); ++i) add(index.class_name(i));
  return sum;
}

// Whether all that an index says of itself fits together. What lies just behind a mapped file can
// be read without a crash, so that walking alone would not show every access out of bounds.
bool sound(const DatasetIndex& index) {
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  bool right = true;
  auto see = [&](std::string_view text) {
    right = right && text.size() <= index.bytes();
    begin = std::min(begin, reinterpret_cast<uintptr_t>(text.data()));
    end = std::max(end, reinterpret_cast<uintptr_t>(text.data() + text.size()));
  };
  for (uint64_t i = 0; i < index.objects(); ++i) see(index.object_name(i));
  for (size_t i = 0; i < index.classes(); ++i) see(index.class_name(i));
  for (uint64_t i = 0; right && i < index.samples(); ++i) {
    right = index.part_count(i) > 0 && index.part_count(i) * 24 <= index.bytes() &&
            (index.classes() == 0 || index.label(i) < index.classes());
    uint64_t sum = 0;
    for (size_t p = 0; right && p < index.part_count(i); ++p) {
      const Part part = index.part(i, p);
      if (!index.plain()) see(part.name);
      right = right && part.object < index.objects() &&
              part_flaw(part.offset, part.length, index.object_size(part.object)) == nullptr &&
              add_length(sum, part.length);
    }
  }
  return right && begin <= end && end - begin <= index.bytes();
}

void fix_checksums(std::vector<char>& bytes) {
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.body_checksum = checksum64(std::as_bytes(std::span(bytes)).subspan(sizeof header));
  header.header_checksum = header_checksum(header);
  std::memcpy(bytes.data(), &header, sizeof header);
}

template <class Change>
std::vector<char> with_header(std::vector<char> bytes, Change change) {
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  fix_checksums(bytes);
  return bytes;
}

template <class T>
void put(std::vector<char>& bytes, IndexSection section, size_t i, const T& value) {
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(bytes.data() + header.place(section).offset + i * sizeof value, &value, sizeof value);
  fix_checksums(bytes);
}

TEST_F(IndexTest, PlainRoundTripKeepsEverything) {
  const DatasetIndex index = reloaded(plain_index());
  ASSERT_EQ(index.samples(), 3u);
  EXPECT_EQ(index.objects(), 3u);
  EXPECT_TRUE(index.plain());
  EXPECT_EQ(index.object_name(0), "cat/1.jpg");
  EXPECT_EQ(index.object_name(2), "dog/1.jpg");
  EXPECT_EQ(index.object_size(2), 300u);
  EXPECT_EQ(index.object_version(2), 13u);
  EXPECT_EQ(index.sample_version(2), 13u);
  EXPECT_EQ(index.label(1), 0u);
  EXPECT_EQ(index.label(2), 1u);
  EXPECT_EQ(index.part_count(2), 1u);
  EXPECT_EQ(index.part(2, 0).object, 2u);
  EXPECT_EQ(index.part(2, 0).offset, 0u);
  EXPECT_EQ(index.part(2, 0).length, 300u);
  EXPECT_EQ(index.part(2, 0).name, "");
  EXPECT_EQ(index.sample_size(0), 100u);
  ASSERT_EQ(index.classes(), 2u);
  EXPECT_EQ(index.class_name(0), "cat");
  EXPECT_EQ(index.class_name(1), "dog");
}

TEST_F(IndexTest, GeneralRoundTripKeepsEverything) {
  const DatasetIndex index = reloaded(general_index());
  ASSERT_EQ(index.samples(), 3u);
  ASSERT_EQ(index.objects(), 2u);
  EXPECT_FALSE(index.plain());
  EXPECT_EQ(index.object_name(1), "b.tar");
  ASSERT_EQ(index.part_count(0), 2u);
  ASSERT_EQ(index.part_count(2), 1u);
  EXPECT_EQ(index.part(0, 1).object, 0u);
  EXPECT_EQ(index.part(0, 1).offset, 512u);
  EXPECT_EQ(index.part(0, 1).length, 4u);
  EXPECT_EQ(index.part(0, 1).name, "cls");
  EXPECT_EQ(index.part(1, 0).object, 1u);
  EXPECT_EQ(index.part(1, 0).name, "jpg");
  EXPECT_EQ(index.sample_size(0), 504u);
  EXPECT_EQ(index.sample_size(1), 450u);
  EXPECT_EQ(index.label(2), 1u);
}

TEST_F(IndexTest, SavedFileIsTheIndexInMemory) {
  const DatasetIndex index = general_index();
  EXPECT_EQ(saved_bytes(index).size(), index.bytes());
  EXPECT_EQ(walk(reloaded(index)), walk(index));
}

TEST_F(IndexTest, BytesThatWereSentAreTheIndex) {
  const DatasetIndex index = general_index();
  const std::vector<std::byte> image(index.image().begin(), index.image().end());
  const auto parsed = DatasetIndex::parse(image);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->fingerprint(), index.fingerprint());
  EXPECT_TRUE(std::ranges::equal(parsed->image(), image));
  for (const size_t length : {size_t{0}, size_t{11}, image.size() - 1}) {
    const auto cut = DatasetIndex::parse(std::span(image).first(length));
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().kind, ErrorKind::corrupt);
  }
}

TEST_F(IndexTest, FingerprintSurvivesTheRoundTrip) {
  EXPECT_EQ(reloaded(general_index()).fingerprint(), general_index().fingerprint());
}

TEST_F(IndexTest, KeepsTheStoreAndNamesOfSamples) {
  IndexBuilder builder;
  builder.set_store("file:///data/set");
  ASSERT_TRUE(builder.add_object("shard", 100, 1));
  const Part parts[] = {{0, 0, 10, {}}};
  ASSERT_TRUE(builder.add_sample(parts, 0));
  ASSERT_TRUE(builder.add_sample(parts, 0, "000017"));
  ASSERT_TRUE(builder.add_sample(parts, 0));
  const DatasetIndex index = reloaded(std::move(*builder.finish()));
  EXPECT_EQ(index.store(), "file:///data/set");
  EXPECT_EQ(index.sample_name(0), "shard");  // has none of its own
  EXPECT_EQ(index.sample_name(1), "000017");
  EXPECT_EQ(index.sample_name(2), "shard");
  EXPECT_EQ(plain_index().sample_name(0), plain_index().object_name(0));
}

TEST_F(IndexTest, NamesAreFoundAcrossBlocks) {
  IndexBuilder builder;
  const uint64_t count = 2 * kNameBlock;  // the last name ends where a third block would begin
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(builder.add_file(std::to_string(i), i, 0, 0));
  }
  const DatasetIndex index = reloaded(builder.finish().value());
  for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(index.object_name(i), std::to_string(i));
}

TEST_F(IndexTest, PlainFormTakes24BytesASample) {
  IndexBuilder builder;
  constexpr uint64_t kSamples = 200'000;
  uint64_t names = 0;
  for (uint64_t i = 0; i < kSamples; ++i) {
    const std::string name = "class/" + std::to_string(i);
    names += name.size();
    ASSERT_TRUE(builder.add_file(name, i, i, 0));
  }
  const uint64_t bytes = builder.finish().value().bytes();
  EXPECT_GE(bytes, 24 * kSamples + names);
  EXPECT_LE(bytes, 24 * kSamples + names + 512);
}

TEST_F(IndexTest, WholeObjectsAddedByHandAreStoredInThePlainForm) {
  IndexBuilder builder;
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(builder.add_object("x", 7, 0));
    const Part whole{i, 0, 7, {}};
    ASSERT_TRUE(builder.add_sample({&whole, 1}, 0));
  }
  EXPECT_TRUE(builder.finish().value().plain());
}

TEST_F(IndexTest, FilesBeforeACutSampleKeepTheirParts) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_file("a", 10, 0, 0));
  ASSERT_TRUE(builder.add_file("b", 20, 0, 0));
  const Part cut{1, 5, 5, "tail"};
  ASSERT_TRUE(builder.add_sample({&cut, 1}, 0));
  const DatasetIndex index = reloaded(builder.finish().value());
  EXPECT_FALSE(index.plain());
  EXPECT_EQ(index.part(1, 0).object, 1u);
  EXPECT_EQ(index.part(1, 0).name, "");
  EXPECT_EQ(index.sample_size(1), 20u);
  EXPECT_EQ(index.part(2, 0).name, "tail");
}

TEST_F(IndexTest, UnusedObjectIsKept) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_file("a", 10, 0, 0));
  ASSERT_TRUE(builder.add_object("unused", 20, 0));
  const DatasetIndex index = reloaded(builder.finish().value());
  EXPECT_FALSE(index.plain());
  EXPECT_EQ(index.samples(), 1u);
  EXPECT_EQ(index.object_name(1), "unused");
}

TEST_F(IndexTest, UnknownSizesStayUnknown) {
  const DatasetIndex plain = reloaded(plain_index());
  EXPECT_EQ(plain.object_size(1), kUnknownSize);
  EXPECT_EQ(plain.sample_size(1), kUnknownSize);
  EXPECT_EQ(plain.part(1, 0).length, kUnknownSize);
  const DatasetIndex general = reloaded(general_index());
  EXPECT_EQ(general.sample_size(2), kUnknownSize);
}

TEST_F(IndexTest, EmptySetIsRefused) {
  const auto index = IndexBuilder().finish();
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().kind, ErrorKind::invalid);
}

TEST_F(IndexTest, BuilderIsEmptyAfterFinish) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_file("a", 1, 0, 0));
  ASSERT_TRUE(builder.finish());
  EXPECT_FALSE(builder.finish());
}

TEST_F(IndexTest, LabelsAreFreeWithoutClasses) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_file("a", 1, 0, UINT32_MAX));
  EXPECT_EQ(reloaded(builder.finish().value()).label(0), UINT32_MAX);
}

TEST_F(IndexTest, LabelWithoutClassIsRefused) {
  IndexBuilder builder;
  builder.add_class("only");
  ASSERT_TRUE(builder.add_file("a", 1, 0, 0));
  ASSERT_TRUE(builder.add_file("b", 1, 0, 1));
  const auto index = builder.finish();
  ASSERT_FALSE(index);
  EXPECT_NE(index.error().message.find("sample 1 has label 1"), std::string::npos);
}

TEST_F(IndexTest, PartsThatDoNotFitAreRefused) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_object("known", 100, 0));
  ASSERT_TRUE(builder.add_object("unknown", kUnknownSize, 0));
  const Part wrong[] = {{0, 0, 101, {}},
                        {0, 101, 0, {}},
                        {0, 50, 51, {}},
                        {0, 2, UINT64_MAX - 1, {}},
                        {0, UINT64_MAX, 1, {}},
                        {0, 0, kUnknownSize, {}},
                        {2, 0, 1, {}},
                        {1, 2, UINT64_MAX - 2, {}},
                        {1, UINT64_MAX - 1, 1, {}}};
  for (const Part& part : wrong) {
    const auto added = builder.add_sample({&part, 1}, 0);
    ASSERT_FALSE(added) << part.object << " " << part.offset << " " << part.length;
    EXPECT_EQ(added.error().kind, ErrorKind::invalid);
  }
}

TEST_F(IndexTest, PartsAtTheEdgeAreTaken) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_object("known", 100, 0));
  ASSERT_TRUE(builder.add_object("unknown", kUnknownSize, 0));
  const Part right[] = {{0, 100, 0, {}}, {0, 99, 1, {}}, {1, 1, UINT64_MAX - 2, {}}};
  for (const Part& part : right) EXPECT_TRUE(builder.add_sample({&part, 1}, 0));
  EXPECT_EQ(reloaded(builder.finish().value()).sample_size(2), UINT64_MAX - 2);
}

TEST_F(IndexTest, SampleWithoutPartsIsRefused) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_object("x", 1, 0));
  EXPECT_FALSE(builder.add_sample({}, 0));
}

TEST_F(IndexTest, SampleAbove64BitsIsRefused) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_object("x", UINT64_MAX - 1, 0));
  const Part parts[] = {{0, 0, UINT64_MAX - 1, "a"}, {0, 0, 1, "b"}};
  EXPECT_FALSE(builder.add_sample(parts, 0));
}

TEST_F(IndexTest, RefusedSampleLeavesNoTrace) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_file("x", 10, 0, 0));
  const Part parts[] = {{0, 0, 5, "a"}, {0, 0, 11, "b"}};
  ASSERT_FALSE(builder.add_sample(parts, 0));
  const DatasetIndex index = builder.finish().value();
  EXPECT_TRUE(index.plain());
  EXPECT_EQ(index.samples(), 1u);
}

TEST_F(IndexTest, NamesOfABlockAbove4GiBAreRefused) {
  // Refused by its length, so the name is never touched and takes no memory.
  const size_t size = size_t{UINT32_MAX} + 1;
  void* name = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(name, MAP_FAILED);
  IndexBuilder builder;
  const auto added = builder.add_object({static_cast<const char*>(name), size}, 0, 0);
  ::munmap(name, size);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().kind, ErrorKind::invalid);
}

TEST_F(IndexTest, EveryTruncationIsDetected) {
  for (const DatasetIndex& index : {plain_index(), general_index()}) {
    const std::vector<char> bytes = saved_bytes(index);
    for (size_t length = 0; length < bytes.size(); ++length) {
      const auto loaded = load_bytes(std::span(bytes).first(length));
      ASSERT_FALSE(loaded) << "cut to " << length;
      ASSERT_EQ(loaded.error().kind, ErrorKind::corrupt);
    }
  }
}

TEST_F(IndexTest, EveryFlippedBitIsDetected) {
  for (const DatasetIndex& index : {plain_index(), general_index()}) {
    std::vector<char> bytes = saved_bytes(index);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const char flip = static_cast<char>(1 << bit % 8);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ flip);
      const auto loaded = load_bytes(bytes);
      ASSERT_FALSE(loaded) << "bit " << bit;
      ASSERT_EQ(loaded.error().kind, ErrorKind::corrupt);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ flip);
    }
  }
}

TEST_F(IndexTest, TrailingBytesAreDetected) {
  std::vector<char> bytes = saved_bytes(plain_index());
  bytes.push_back(0);
  EXPECT_FALSE(load_bytes(bytes));
}

// A file whose checksums are right but whose contents are wrong must fail, or be safe to use.
TEST_F(IndexTest, MutatedFilesWithRightChecksumsAreSafe) {
  constexpr unsigned kSeed = 20240607;
  constexpr int kRounds = 20'000;
  std::mt19937_64 random(kSeed);
  const std::vector<char> seeds[] = {saved_bytes(plain_index()), saved_bytes(general_index())};
  constexpr size_t kFirst = offsetof(IndexHeader, flags);  // magic and version are another test
  constexpr size_t kChecksums = offsetof(IndexHeader, body_checksum);
  const uint64_t edges[] = {0,
                            1,
                            2,
                            3,
                            8,
                            sizeof(IndexHeader),
                            65'536,
                            UINT32_MAX,
                            UINT64_MAX,
                            UINT64_MAX - 1,
                            UINT64_MAX / 8,
                            UINT64_MAX / 24 + 1,
                            uint64_t{1} << 63};
  int loaded_count = 0;
  uint64_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<char> bytes = seeds[random() % 2];
    for (uint64_t change = 0; change <= random() % 3; ++change) {
      const size_t at = kFirst + random() % (bytes.size() - kFirst);
      if (at >= kChecksums && at < sizeof(IndexHeader)) continue;
      if (random() % 2 == 0) {
        bytes[at] = static_cast<char>(random());
      } else {
        const size_t width = random() % 2 == 0 ? 4 : 8;
        const uint64_t value = edges[random() % std::size(edges)];
        std::memcpy(bytes.data() + at / width * width, &value,
                    std::min(width, bytes.size() - at / width * width));
      }
    }
    fix_checksums(bytes);
    if (const auto index = load_bytes(bytes)) {
      ++loaded_count;
      ASSERT_TRUE(sound(*index)) << "round " << round;
      sum += walk(*index);
    }
  }
  // Versions, sizes, labels and letters of names may change, so some must have passed.
  EXPECT_GT(loaded_count, 0);
  EXPECT_LT(loaded_count, kRounds);
  EXPECT_NE(sum, 0u);
}

TEST_F(IndexTest, WrongSectionIsRefused) {
  const std::vector<char> bytes = saved_bytes(general_index());
  for (size_t section = 0; section < kIndexSections; ++section) {
    SCOPED_TRACE(section);
    auto with_place = [&](auto change) {
      return with_header(bytes, [&](IndexHeader& header) { change(header.sections[section]); });
    };
    EXPECT_FALSE(load_bytes(with_place([](SectionPlace& place) { place.bytes -= 4; })));
    EXPECT_FALSE(load_bytes(with_place([](SectionPlace& place) { place.bytes += 8; })));
    EXPECT_FALSE(load_bytes(with_place([](SectionPlace& place) { place.bytes = 0; })));
    EXPECT_FALSE(load_bytes(with_place([](SectionPlace& place) { place.bytes = UINT64_MAX; })));
    EXPECT_FALSE(
        load_bytes(with_place([](SectionPlace& place) { place.offset = UINT64_MAX - 7; })));
    EXPECT_FALSE(load_bytes(with_place([](SectionPlace& place) { place.offset += 4; })));
    EXPECT_FALSE(load_bytes(with_place([](SectionPlace& place) { place.offset = 8; })));
  }
}

TEST_F(IndexTest, WrongCountIsRefused) {
  for (const DatasetIndex& index : {plain_index(), general_index()}) {
    const std::vector<char> bytes = saved_bytes(index);
    for (uint64_t IndexHeader::* count :
         {&IndexHeader::objects, &IndexHeader::samples, &IndexHeader::parts,
          &IndexHeader::part_names, &IndexHeader::classes}) {
      auto with_count = [&](uint64_t add) {
        return with_header(bytes, [&](IndexHeader& header) { header.*count += add; });
      };
      EXPECT_FALSE(load_bytes(with_count(1)));
      EXPECT_FALSE(load_bytes(with_count(UINT64_MAX)));  // one less
      EXPECT_FALSE(load_bytes(with_count(UINT64_MAX / 2)));
    }
  }
}

TEST_F(IndexTest, IndexWithoutSamplesIsRefused) {
  const std::vector<char> bytes = saved_bytes(general_index());
  EXPECT_FALSE(load_bytes(with_header(bytes, [](IndexHeader& header) {
    header.samples = header.parts = 0;
    header.sections[static_cast<size_t>(IndexSection::labels)].bytes = 0;
    header.sections[static_cast<size_t>(IndexSection::first_parts)].bytes = 8;
    header.sections[static_cast<size_t>(IndexSection::parts)].bytes = 0;
  })));
}

TEST_F(IndexTest, PlainFormWithFewerSamplesThanObjectsIsRefused) {
  const std::vector<char> bytes = saved_bytes(plain_index());
  EXPECT_FALSE(load_bytes(with_header(bytes, [](IndexHeader& header) {
    --header.samples;
    header.sections[static_cast<size_t>(IndexSection::labels)].bytes -= 4;
  })));
}

TEST_F(IndexTest, BytesBehindTheEndAreRefusedEvenWithRightChecksums) {
  std::vector<char> bytes = saved_bytes(plain_index());
  bytes.resize(bytes.size() + 8);
  fix_checksums(bytes);
  EXPECT_FALSE(load_bytes(bytes));
}

TEST_F(IndexTest, NameBaseOutsideTheNamesIsRefused) {
  std::vector<char> bytes = saved_bytes(plain_index());
  put<uint64_t>(bytes, IndexSection::name_bases, 0, UINT64_MAX);
  for (size_t i = 0; i <= 3; ++i) {  // with these, every sum would be what it was
    put<uint32_t>(bytes, IndexSection::name_offsets, i, static_cast<uint32_t>(9 * i + 1));
  }
  EXPECT_FALSE(load_bytes(bytes));
}

TEST_F(IndexTest, PartBeforeTheFirstSampleIsRefused) {
  std::vector<char> bytes = saved_bytes(general_index());
  put<uint64_t>(bytes, IndexSection::first_parts, 0, 1);
  EXPECT_FALSE(load_bytes(bytes));
}

TEST_F(IndexTest, SampleThatEndsBehindTheLastPartIsRefused) {
  std::vector<char> bytes = saved_bytes(general_index());
  put<uint64_t>(bytes, IndexSection::first_parts, 1, 100);
  EXPECT_FALSE(load_bytes(bytes));
}

TEST_F(IndexTest, StoredSampleAbove64BitsIsRefused) {
  std::vector<char> bytes = saved_bytes(general_index());
  const StoredPart huge{0, UINT64_MAX - 1, 1, 0};  // object 1 has no known size
  put(bytes, IndexSection::parts, 0, huge);
  put(bytes, IndexSection::parts, 1, huge);
  EXPECT_FALSE(load_bytes(bytes));
}

TEST_F(IndexTest, UnknownFlagIsRefused) {
  const std::vector<char> bytes = saved_bytes(plain_index());
  EXPECT_FALSE(load_bytes(with_header(bytes, [](IndexHeader& header) { header.flags |= 4; })));
}

TEST_F(IndexTest, OtherVersionIsNamed) {
  const std::vector<char> bytes = saved_bytes(plain_index());
  const auto loaded =
      load_bytes(with_header(bytes, [](IndexHeader& header) { header.version = 7; }));
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("format version 7"), std::string::npos);
}

TEST_F(IndexTest, FileThatIsNoIndexIsNotToBeDeleted) {
  const std::string text(1000, 'x');
  const auto loaded = load_bytes(text);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(loaded.error().message,
            "cannot load index " + file_.string() + ": it is not a foreload index; check the path");
}

TEST_F(IndexTest, DamageIsToldWithItsRemedy) {
  std::vector<char> bytes = saved_bytes(plain_index());
  bytes[sizeof(IndexHeader)] = static_cast<char>(bytes[sizeof(IndexHeader)] ^ 1);
  EXPECT_EQ(load_bytes(bytes).error().message,
            "cannot load index " + file_.string() +
                ": checksum mismatch; delete it and list the folder again");
}

TEST_F(IndexTest, MissingFileIsUnreadable) {
  const auto loaded = DatasetIndex::load(folder_ / "missing");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::unreadable);
  EXPECT_NE(
      loaded.error().message.find((folder_ / "missing").string() + ": No such file or directory"),
      std::string::npos);
}

TEST_F(IndexTest, FolderIsUnreadableAsIndex) {
  const auto loaded = DatasetIndex::load(folder_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::unreadable);
}

TEST_F(IndexTest, KeepsFoldersAndTheirTimes) {
  IndexBuilder builder;
  builder.add_folder("", 5);
  builder.add_folder("cat", 7);
  ASSERT_TRUE(builder.add_file("cat/1.jpg", 1, 1, 0));
  const DatasetIndex index = reloaded(builder.finish().value());
  ASSERT_EQ(index.folders(), 2u);
  EXPECT_EQ(index.folder_name(0), "");
  EXPECT_EQ(index.folder_name(1), "cat");
  EXPECT_EQ(index.folder_time(1), 7u);
}

TEST_F(IndexTest, AnOlderVersionIsOutdatedAndNothingElseIs) {
  std::vector<char> bytes = saved_bytes(plain_index());
  EXPECT_FALSE(DatasetIndex::outdated(file_));
  bytes[offsetof(IndexHeader, version)] = 1;
  EXPECT_FALSE(load_bytes(bytes));
  EXPECT_TRUE(DatasetIndex::outdated(file_));
  EXPECT_FALSE(load_bytes(std::string(1000, 'x')));
  EXPECT_FALSE(DatasetIndex::outdated(file_));
  EXPECT_FALSE(DatasetIndex::outdated(folder_ / "missing"));
}

TEST_F(IndexTest, SaveIntoAMissingFolderFails) {
  const auto saved = plain_index().save(folder_ / "missing" / "set.index");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, ErrorKind::unreadable);
}

TEST_F(IndexTest, SaveReplacesAnOlderFile) {
  ASSERT_TRUE(plain_index().save(file_));
  ASSERT_TRUE(general_index().save(file_));
  EXPECT_FALSE(DatasetIndex::load(file_).value().plain());
  EXPECT_EQ(entries_in_folder(), 1u);
}

TEST_F(IndexTest, MappedIndexCanBeSavedOverItself) {
  const DatasetIndex index = reloaded(general_index());
  ASSERT_TRUE(index.save(file_));
  EXPECT_EQ(walk(index), walk(DatasetIndex::load(file_).value()));
}

TEST_F(IndexTest, FailedRenameLeavesNoTemporaryFile) {
  fs::create_directory(file_);
  ASSERT_FALSE(plain_index().save(file_));
  EXPECT_EQ(entries_in_folder(), 1u);
}

TEST_F(IndexTest, FailedWriteLeavesNoTemporaryFile) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto saved = plain_index().save(file_);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(saved);
  EXPECT_EQ(entries_in_folder(), 0u);
}

Digest plain_fingerprint(std::vector<std::string> names, uint64_t size = 1, uint64_t version = 1,
                         uint32_t label = 0) {
  IndexBuilder builder;
  for (const std::string& name : names) EXPECT_TRUE(builder.add_file(name, size, version, label));
  return builder.finish().value().fingerprint();
}

Digest cut_fingerprint(Part part, uint64_t object_size = 100) {
  IndexBuilder builder;
  EXPECT_TRUE(builder.add_object("a.tar", object_size, 0));
  EXPECT_TRUE(builder.add_object("b.tar", object_size, 0));
  EXPECT_TRUE(builder.add_sample({&part, 1}, 0));
  return builder.finish().value().fingerprint();
}

TEST(FingerprintTest, IgnoresSizesVersionsAndLabels) {
  const Digest fingerprint = plain_fingerprint({"a", "b"});
  EXPECT_EQ(fingerprint, plain_fingerprint({"a", "b"}, 2, 1, 0));
  EXPECT_EQ(fingerprint, plain_fingerprint({"a", "b"}, kUnknownSize, 1, 0));
  EXPECT_EQ(fingerprint, plain_fingerprint({"a", "b"}, 1, 2, 0));
  EXPECT_EQ(fingerprint, plain_fingerprint({"a", "b"}, 1, 1, 1));
}

TEST(FingerprintTest, SeesNames) {
  EXPECT_NE(plain_fingerprint({"a", "b"}), plain_fingerprint({"a", "c"}));
  EXPECT_NE(plain_fingerprint({"a", "bc"}), plain_fingerprint({"ab", "c"}));
}

TEST(FingerprintTest, SeesOrder) {
  EXPECT_NE(plain_fingerprint({"a", "b"}), plain_fingerprint({"b", "a"}));
}

TEST(FingerprintTest, SeesHowSamplesAreCut) {
  const Digest fingerprint = cut_fingerprint({0, 10, 20, "jpg"});
  EXPECT_NE(fingerprint, cut_fingerprint({1, 10, 20, "jpg"}));
  EXPECT_NE(fingerprint, cut_fingerprint({0, 11, 20, "jpg"}));
  EXPECT_NE(fingerprint, cut_fingerprint({0, 10, 21, "jpg"}));
  EXPECT_NE(fingerprint, cut_fingerprint({0, 10, 20, "png"}));
}

// Two files in a class folder, listed with more of them or fewer, from the class folder or above.
DatasetIndex files_of(std::string_view store, const std::vector<std::string>& names,
                      uint64_t version = 7) {
  IndexBuilder builder;
  builder.set_store(store);
  for (const std::string& name : names) EXPECT_TRUE(builder.add_file(name, 10, version, 0));
  return std::move(*builder.finish());
}

TEST(ContentTest, IsOfTheSampleAndNotOfTheListing) {
  const DatasetIndex whole = files_of("file:///set", {"a/1", "a/2", "b/1"});
  EXPECT_EQ(whole.content(1), files_of("file:///set", {"a/0", "a/2"}).content(1));
  EXPECT_EQ(whole.content(1), files_of("file:///set/a", {"2"}).content(0));
  EXPECT_NE(whole.content(0), whole.content(1));
  EXPECT_NE(whole.content(0), whole.content(2));
  EXPECT_NE(whole.content(0), files_of("file:///other", {"a/1"}).content(0));
  EXPECT_NE(whole.content(0), files_of("file:///set", {"a/1"}, 8).content(0));
}

TEST(ContentTest, SeesTheExtentsOfAllParts) {
  IndexBuilder builder;
  ASSERT_TRUE(builder.add_object("shard", 100, 1));
  const Part one[] = {{0, 0, 10, "jpg"}};
  const Part two[] = {{0, 0, 10, "jpg"}, {0, 10, 5, "cls"}};
  const Part longer[] = {{0, 0, 11, "jpg"}};
  ASSERT_TRUE(builder.add_sample(one, 0));
  ASSERT_TRUE(builder.add_sample(two, 0));
  ASSERT_TRUE(builder.add_sample(longer, 0));
  const DatasetIndex index = std::move(*builder.finish());
  EXPECT_NE(index.content(0), index.content(1));
  EXPECT_NE(index.content(0), index.content(2));
}

TEST(FingerprintTest, IgnoresTheSizeOfAWholeObjectInTheGeneralForm) {
  EXPECT_EQ(cut_fingerprint({0, 0, 100, {}}, 100), cut_fingerprint({0, 0, 200, {}}, 200));
}

}  // namespace
}  // namespace foreload
