#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/failed_download.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference library's limit

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Names what people have in place of a safetensors file: the usual outcomes of a failed download.
void refuse_other_kinds(std::string_view file, const std::string& origin) {
  refuse_failed_download(file, "weights", origin);
  if (starts_with(file, "GGUF")) {
    refuse("{}: is a GGUF file; only safetensors checkpoints can be loaded", origin);
  }
  if (starts_with(file, "PK\x03\x04")) {
    refuse("{}: is a zip archive (a PyTorch checkpoint?); only safetensors can be loaded", origin);
  }
  if (starts_with(file, "{\"")) {
    refuse("{}: is JSON text, not weights (a server's error message saved by a download?)", origin);
  }
}

/// The header text; every length is checked before it is used.
std::string_view header_text(std::string_view file, const std::string& origin) {
  uint64_t length = 0;
  if (file.size() >= kLengthBytes) std::memcpy(&length, file.data(), sizeof length);
  const bool has_header =
      file.size() > kLengthBytes && length <= kMaxHeaderBytes && file[kLengthBytes] == '{';
  // Only then: a sound file can begin with '<', as the low byte of a length.
  if (!has_header) refuse_other_kinds(file, origin);
  if (file.size() < kLengthBytes) {
    refuse("{}: {} bytes are too short for a safetensors file", origin, file.size());
  }
  if (length > kMaxHeaderBytes) {
    refuse("{}: not a safetensors file: it states a header of {} bytes, at most {} are allowed",
           origin, length, kMaxHeaderBytes);
  }
  const uint64_t available = file.size() - kLengthBytes;
  if (length > available) {
    refuse("{}: the file is cut inside its header: {} bytes are missing (incomplete download?)",
           origin, length - available);
  }
  const std::string_view text = file.substr(kLengthBytes, length);
  if (text.empty() || text[0] != '{') {
    refuse("{}: not a safetensors file: the header doesn't begin with '{{'", origin);
  }
  return text;
}

/// Bytes that dtype and shape imply. Zero extents don't hide an overflow of the others.
uint64_t implied_bytes(const SafetensorsHeaderEntry& entry, std::string_view name,
                       const std::string& origin) {
  uint64_t bits = static_cast<uint64_t>(bits_of(entry.dtype));
  bool empty = false;
  for (const int64_t dim : entry.dims) {
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits)) {
      refuse("{}: tensor \"{}\": the shape is too large for any file", origin, printable(name));
    }
  }
  if (empty) return 0;
  if (bits % 8 != 0) {
    refuse("{}: tensor \"{}\": {} elements of {} don't fill whole bytes", origin, printable(name),
           bits / static_cast<uint64_t>(bits_of(entry.dtype)), name_of(entry.dtype));
  }
  return bits / 8;
}

/// Tensors must cover the data without hole or overlap, from its first byte to its last.
void check_layout(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& origin) {
  using Item = std::pair<const std::string, SafetensorsHeaderEntry>;
  std::vector<const Item*> items;
  items.reserve(header.entries.size());
  for (const Item& item : header.entries) {
    const auto& [name, entry] = item;
    if (entry.end < entry.begin) {
      refuse("{}: tensor \"{}\": data_offsets [{}, {}] run backwards", origin, printable(name),
             entry.begin, entry.end);
    }
    const uint64_t expected = implied_bytes(entry, name, origin);
    if (entry.end - entry.begin != expected) {
      refuse("{}: tensor \"{}\": data_offsets span {} bytes, but dtype and shape need {}", origin,
             printable(name), entry.end - entry.begin, expected);
    }
    items.push_back(&item);
  }
  std::sort(items.begin(), items.end(), [](const Item* a, const Item* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t covered = 0;
  for (const Item* item : items) {
    if (item->second.begin != covered) {
      refuse("{}: tensor \"{}\" begins at byte {} of the data, expected {} ({})", origin,
             printable(item->first), item->second.begin, covered,
             item->second.begin > covered ? "a hole" : "an overlap");
    }
    covered = item->second.end;
  }
  if (covered > data_bytes) {
    refuse("{}: the file is cut: {} bytes are missing at its end (incomplete download?)", origin,
           covered - data_bytes);
  }
  if (covered < data_bytes) {
    refuse("{}: {} bytes follow the last tensor that the header lists", origin,
           data_bytes - covered);
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const fs::path& path) {
  const std::shared_ptr<const MappedFile> mapping = MappedFile::open(path);
  const std::string origin = path.string();
  const std::string_view bytes(reinterpret_cast<const char*>(mapping->data()),
                               static_cast<size_t>(mapping->size()));
  const std::string_view text = header_text(bytes, origin);
  SafetensorsHeader header = parse_safetensors_header(text, origin);
  const uint64_t data_begin = kLengthBytes + text.size();
  check_layout(header, bytes.size() - data_begin, origin);

  SafetensorsFile file;
  file.path_ = path;
  file.mapping_ = mapping;
  file.metadata_ = std::move(header.metadata);
  const std::byte* data = mapping->data() + data_begin;
  while (!header.entries.empty()) {
    auto node = header.entries.extract(header.entries.begin());
    SafetensorsHeaderEntry& entry = node.mapped();
    const auto size = static_cast<int64_t>(entry.end - entry.begin);
    file.entries_.emplace_hint(file.entries_.end(), std::move(node.key()),
                               Entry{entry.dtype, std::move(entry.dims), data + entry.begin, size});
  }
  return file;
}

}  // namespace llm
