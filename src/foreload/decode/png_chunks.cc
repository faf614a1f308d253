// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png_chunks.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "foreload/decode/exif.h"

namespace foreload {
namespace {

using Bytes = PngChunks::Bytes;

constexpr size_t kSignatureBytes = 8;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kMostText = 1 << 20;          // Pillow's MAX_TEXT_CHUNK
constexpr size_t kMostTexts = 64 * kMostText;  // Pillow's MAX_TEXT_MEMORY
constexpr uint32_t kMostFrames = 0x80000000;

std::string_view png_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint32_t png_byte(Bytes bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

uint16_t png_short(Bytes bytes, size_t at) {
  return static_cast<uint16_t>(png_byte(bytes, at) << 8 | png_byte(bytes, at + 1));
}

uint32_t png_number(Bytes bytes, size_t at) {
  return uint32_t{png_short(bytes, at)} << 16 | png_short(bytes, at + 2);
}

tl::unexpected<Error> png_broken(std::string_view what) {
  return fail(ErrorKind::invalid,
              fmt::format("corrupt PNG image: {}; copy it again, or save it anew", what));
}

tl::unexpected<Error> chunk_cut_off() {
  return fail(ErrorKind::invalid,
              "truncated PNG image: the file ends inside a chunk; copy it again");
}

std::optional<PngLayout> layout_of(uint32_t depth, uint32_t color) {
  const bool one_byte_or_two = depth == 8 || depth == 16;
  const bool small = depth == 1 || depth == 2 || depth == 4;
  switch (color) {
    case PngLayout::grey:
      if (!small && !one_byte_or_two) return std::nullopt;
      break;
    case PngLayout::palette:
      if (!small && depth != 8) return std::nullopt;
      break;
    case PngLayout::rgb:
    case PngLayout::grey_alpha:
    case PngLayout::rgba:
      if (!one_byte_or_two) return std::nullopt;
      break;
    default:
      return std::nullopt;
  }
  return PngLayout{static_cast<PngLayout::Color>(color), depth};
}

// Splits at the first zero byte; nothing if there is none.
std::optional<std::pair<std::string_view, std::string_view>> split_at_zero(std::string_view text) {
  const size_t at = text.find('\0');
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair{text.substr(0, at), text.substr(at + 1)};
}

// The characters of well-formed UTF-8; nothing if it is not.
std::optional<size_t> characters_of(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) {
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
    const uint8_t first = byte(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || text.size() - i < length) return std::nullopt;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return std::nullopt;
    }
    const uint8_t second = byte(i + 1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
      return std::nullopt;
    }
    i += length;
  }
  return count;
}

// Only an alpha of zero among opaque ones. Pillow's pattern lets a last byte of 10 pass.
bool one_transparent(std::string_view alphas) {
  if (alphas.ends_with('\n')) alphas.remove_suffix(1);
  return std::ranges::count(alphas, '\0') == 1 &&
         std::ranges::count(alphas, '\xFF') == static_cast<ptrdiff_t>(alphas.size()) - 1;
}

// Of the text that ImageMagick writes: three lines of heading, then hexadecimal digits in lines.
std::optional<std::string> from_hexadecimal(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::string digits(text);
  std::erase(digits, '\n');
  std::string bytes;
  const auto value_of = [](char digit) -> int {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < digits.size();) {
    if (std::string_view(" \t\v\f\r").find(digits[i]) != std::string_view::npos) {
      ++i;
      continue;
    }
    const int high = value_of(digits[i]);
    const int low = i + 1 < digits.size() ? value_of(digits[i + 1]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return bytes;
}

}  // namespace

uint32_t PngLayout::channels() const {
  switch (color) {
    case grey:
    case palette:
      return 1;
    case grey_alpha:
      return 2;
    case rgb:
      return 3;
    case rgba:
      return 4;
  }
  return 0;
}

PngChunks::PngChunks(Bytes file) : file_(file), at_(kSignatureBytes) {}

std::optional<PngChunks::Chunk> PngChunks::read_head() {
  constexpr size_t kHead = 8;
  at_ = std::min(at_, file_.size());
  if (file_.size() - at_ < kHead) return std::nullopt;
  const Chunk chunk{png_text(file_.subspan(at_ + 4, 4)), png_number(file_, at_)};
  const auto named = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (!std::ranges::all_of(chunk.name, named)) return std::nullopt;
  at_ += kHead;
  return chunk;
}

Result<Bytes> PngChunks::read_body(size_t length) {
  if (length > file_.size() - at_) return chunk_cut_off();
  const Bytes body = file_.subspan(at_, length);
  at_ += length;
  return body;
}

Result<void> PngChunks::open() {
  while (true) {
    const auto chunk = read_head();
    if (!chunk) return png_broken("no chunk where one must begin");
    if (chunk->name == "IEND") return png_broken("no pixels");
    FORELOAD_TRY(const Found found, read(*chunk));
    if (found == Found::pixels) break;
    if (found == Found::unknown) {
      FORELOAD_TRY(body_, read_body(chunk->length));
    }
    if (file_.size() - at_ < kChecksumBytes) return chunk_cut_off();
    const uint32_t name = libdeflate_crc32(0, chunk->name.data(), chunk->name.size());
    if (libdeflate_crc32(name, body_.data(), body_.size()) != png_number(file_, at_)) {
      return png_broken(fmt::format("wrong checksum of the chunk {}", chunk->name));
    }
    at_ += kChecksumBytes;
  }
  size_ = stream_size_;
  layout_ = stream_layout_;
  if (size_.width == 0 || size_.height == 0) {
    return fail(ErrorKind::invalid, "PNG image that declares no pixels");
  }
  constexpr uint32_t kLargestSide = INT32_MAX;
  if (size_.width > kLargestSide || size_.height > kLargestSide) {
    return fail(ErrorKind::invalid, "PNG image that declares an impossible size");
  }
  frame_ = frame_control_.value_or(Region{0, 0, size_.width, size_.height});
  if (frame_.width == 0 || frame_.height == 0 || frame_.x > size_.width ||
      frame_.y > size_.height || frame_.width > size_.width - frame_.x ||
      frame_.height > size_.height - frame_.y) {
    return png_broken("a frame outside the image");
  }
  if (frame_.width > INT32_MAX / layout_.bits() - 7) return png_broken("rows that are too long");
  opened_ = true;
  animated_ = frames_ && (*frames_ > 1 || !frame_control_);
  return {};
}

Result<Bytes> PngChunks::next_piece() {
  while (left_in_chunk_ == 0) {
    const size_t end = at_;
    at_ += kChecksumBytes;
    const auto chunk = read_head();
    if (chunk && chunk->name == "fdAT") {
      FORELOAD_CHECK(read(*chunk));
    } else if (chunk && (chunk->name == "IDAT" || chunk->name == "DDAT")) {
      left_in_chunk_ = chunk->length;
    } else {
      at_ = end;
      return Bytes{};
    }
  }
  const size_t count = std::min(kPiece, left_in_chunk_);
  left_in_chunk_ -= count;
  const Bytes piece = file_.subspan(at_, std::min(count, file_.size() - at_));
  at_ += piece.size();
  cut_short_ |= piece.size() < count;
  return piece;
}

Result<void> PngChunks::close() {
  at_ = left_in_chunk_ > file_.size() - at_ ? file_.size() : at_ + left_in_chunk_;
  left_in_chunk_ = 0;
  while (true) {
    at_ += kChecksumBytes;
    const auto chunk = read_head();
    if (!chunk || chunk->name == "IEND" || (chunk->name == "fcTL" && animated_)) return {};
    FORELOAD_TRY(const Found found, read(*chunk));
    if (found == Found::known) continue;
    FORELOAD_CHECK(read_body(found == Found::pixels ? left_in_chunk_ : chunk->length));
    left_in_chunk_ = 0;
  }
}

Result<PngChunks::Found> PngChunks::read(const Chunk& chunk) {
  using Reader = Result<void> (PngChunks::*)();
  struct Kind {
    std::string_view name;
    size_t least;  // bytes
    Reader reader;
  };
  static constexpr std::array<Kind, 15> kKinds{{
      {"IHDR", 13, &PngChunks::read_header_chunk},
      {"PLTE", 0, nullptr},
      {"tRNS", 0, &PngChunks::read_transparency},
      {"iCCP", 0, &PngChunks::read_profile},
      {"gAMA", 4, nullptr},
      {"cHRM", 32, nullptr},
      {"sRGB", 1, nullptr},
      {"pHYs", 9, nullptr},
      {"tEXt", 0, &PngChunks::read_text},
      {"zTXt", 0, &PngChunks::read_compressed_text},
      {"iTXt", 0, &PngChunks::read_international_text},
      {"eXIf", 0, nullptr},
      {"acTL", 8, &PngChunks::read_animation},
      {"fcTL", 26, &PngChunks::read_frame},
      {"fdAT", 4, nullptr},
  }};
  if (chunk.name == "IDAT") {
    // Without a header that makes sense, pixels are a chunk like others.
    if (stream_layout_.depth == 0) return Found::unknown;
    left_in_chunk_ = chunk.length;
    return Found::pixels;
  }
  const auto kind = std::ranges::find(kKinds, chunk.name, &Kind::name);
  if (kind == kKinds.end()) return Found::unknown;
  if (chunk.name == "fdAT") {
    FORELOAD_TRY(const Bytes number, read_body(std::min<size_t>(chunk.length, 4)));
    if (number.size() < 4) return png_broken("a short chunk fdAT");
    const uint32_t place = png_number(number, 0);
    if (place == 0 || sequence_ != place - 1 || stream_layout_.depth == 0)
      return png_broken("frames out of order");
    sequence_ = place;
    left_in_chunk_ = chunk.length - 4;
    return Found::pixels;
  }
  FORELOAD_TRY(body_, read_body(chunk.length));
  if (body_.size() < kind->least) return png_broken(fmt::format("a short chunk {}", chunk.name));
  if (chunk.name == "PLTE" && stream_layout_.depth != 0 &&
      stream_layout_.color == PngLayout::palette && !opened_) {
    palette_ = body_;
  }
  if (chunk.name == "eXIf") exif_ = body_;
  if (kind->reader != nullptr) FORELOAD_CHECK((this->*kind->reader)());
  return Found::known;
}

Result<void> PngChunks::read_header_chunk() {
  stream_size_ = {png_number(body_, 0), png_number(body_, 4)};
  if (const auto layout = layout_of(png_byte(body_, 8), png_byte(body_, 9)))
    stream_layout_ = *layout;
  if (png_byte(body_, 12) != 0 && !opened_) interlaced_ = true;
  if (png_byte(body_, 11) != 0) return png_broken("filters of an unknown kind");
  return {};
}

Result<void> PngChunks::read_transparency() {
  if (stream_layout_.depth == 0) return {};
  switch (stream_layout_.color) {
    case PngLayout::palette:
      if (one_transparent(png_text(body_))) {
        transparency_ = {.kind = PngTransparency::index, .entry = png_text(body_).find('\0')};
      } else {
        transparency_ = {.kind = PngTransparency::alphas, .values = body_};
      }
      return {};
    case PngLayout::grey:
      if (body_.size() < 2) return png_broken("a short chunk tRNS");
      transparency_ = {PngTransparency::color, png_short(body_, 0), png_short(body_, 0),
                       png_short(body_, 0)};
      return {};
    case PngLayout::rgb:
      if (body_.size() < 6) return png_broken("a short chunk tRNS");
      transparency_ = {PngTransparency::color, png_short(body_, 0), png_short(body_, 2),
                       png_short(body_, 4)};
      return {};
    case PngLayout::grey_alpha:
    case PngLayout::rgba:
      return {};
  }
  return {};
}

Result<void> PngChunks::read_animation() {
  const uint32_t frames = png_number(body_, 0);
  if (frames_) {
    frames_ = std::nullopt;
  } else if (frames != 0 && frames <= kMostFrames) {
    frames_ = frames;
  }
  return {};
}

Result<void> PngChunks::read_frame() {
  const uint32_t number = png_number(body_, 0);
  if (number == 0 ? sequence_.has_value() : sequence_ != number - 1)
    return png_broken("frames out of order");
  sequence_ = number;
  const Region frame{png_number(body_, 12), png_number(body_, 16), png_number(body_, 4),
                     png_number(body_, 8)};
  if (uint64_t{frame.x} + frame.width > stream_size_.width ||
      uint64_t{frame.y} + frame.height > stream_size_.height) {
    return png_broken("a frame outside the image");
  }
  frame_control_ = frame;
  return {};
}

// Nothing if it is no zlib stream; the beginning of one that ends too early. Fails if there is too
// much of it.
Result<std::optional<std::string>> PngChunks::inflated(std::string_view compressed) const {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return fail(ErrorKind::invalid, "no memory for a PNG image");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::string text;
  int status = Z_OK;
  while (status == Z_OK && text.size() < kMostText) {
    constexpr size_t kStep = 16384;
    const size_t before = text.size();
    text.resize(before + kStep);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream.avail_out = kStep;
    status = inflate(&stream, Z_SYNC_FLUSH);
    text.resize(text.size() - stream.avail_out);
    if (stream.avail_out != 0) break;
  }
  const bool rest = stream.avail_in > 0 && status != Z_STREAM_END;
  inflateEnd(&stream);
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return std::nullopt;
  if (rest) return png_broken("a text or profile of more than a megabyte");
  return text;
}

Result<void> PngChunks::read_profile() {
  const std::string_view text = png_text(body_);
  const size_t name = text.find('\0');
  const size_t method = name == std::string_view::npos ? 0 : name + 1;
  if (method >= text.size() || text[method] != 0) return png_broken("a profile of an unknown kind");
  FORELOAD_CHECK(inflated(text.substr(method + 1)));
  return {};
}

Result<void> PngChunks::keep_text(std::string_view key, std::string value, size_t characters) {
  text_characters_ += characters;
  if (text_characters_ > kMostTexts) return png_broken("texts of more than 64 megabytes");
  if (key == "Raw profile type exif")
    hexadecimal_exif_ = std::move(value);
  else if (key == "XML:com.adobe.xmp")
    xmp_text_ = std::move(value);
  return {};
}

Result<void> PngChunks::read_text() {
  const std::string_view text = png_text(body_);
  const auto [key, value] = split_at_zero(text).value_or(std::pair{text, std::string_view()});
  if (key.empty()) return {};
  if (key == "exif") exif_ = body_.last(value.size());
  return keep_text(key, std::string(value), value.size());
}

Result<void> PngChunks::read_compressed_text() {
  const std::string_view text = png_text(body_);
  const auto [key, value] = split_at_zero(text).value_or(std::pair{text, std::string_view()});
  if (!value.empty() && value[0] != 0) return png_broken("a text of an unknown kind");
  FORELOAD_TRY(auto words, inflated(value.substr(std::min<size_t>(value.size(), 1))));
  if (key.empty()) return {};
  const size_t size = words ? words->size() : 0;
  return keep_text(key, std::move(words).value_or(""), size);
}

Result<void> PngChunks::read_international_text() {
  const auto key = split_at_zero(png_text(body_));
  if (!key || key->second.size() < 2) return {};
  const bool compressed = key->second[0] != 0;
  if (compressed && key->second[1] != 0) return {};
  const auto language = split_at_zero(key->second.substr(2));
  if (!language) return {};
  const auto translated = split_at_zero(language->second);
  if (!translated) return {};
  std::string value(translated->second);
  if (compressed) {
    FORELOAD_TRY(auto words, inflated(value));
    if (!words) return {};
    value = std::move(*words);
  }
  if (key->first == "XML:com.adobe.xmp") xmp_ = value;
  const auto characters = characters_of(value);
  if (!characters || !characters_of(language->first) || !characters_of(translated->first))
    return {};
  return keep_text(key->first, std::move(value), *characters);
}

Result<int> PngChunks::orientation() const {
  int found = 0;
  if (exif_) {
    FORELOAD_TRY(found, exif_orientation(*exif_));
  } else if (hexadecimal_exif_) {
    const auto block = from_hexadecimal(*hexadecimal_exif_);
    if (!block) {
      return fail(ErrorKind::invalid,
                  "EXIF metadata that are not hexadecimal; remove them, or decode without the "
                  "orientation");
    }
    FORELOAD_TRY(found, exif_orientation(std::as_bytes(std::span(*block))));
  }
  if (found == 0) {
    const auto& xmp = xmp_text_ && !xmp_text_->empty() ? xmp_text_ : xmp_;
    if (xmp) found = xmp_orientation(std::as_bytes(std::span(*xmp)));
  }
  return found == 0 ? 1 : found;
}

}  // namespace foreload
