#include "io/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "checkpoint_maker.h"
#include "io/json.h"
#include "io/safetensors_writer.h"
#include "little_memory.h"
#include "test_data.h"

using namespace llm;
namespace fs = std::filesystem;

namespace {

/// A file of these 8 length bytes, header and data.
std::string file_bytes(uint64_t length, const std::string& header, const std::string& data) {
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + data;
}

std::string file_bytes(const std::string& header, const std::string& data) {
  return file_bytes(header.size(), header, data);
}

/// The message with which opening the file is refused; empty if it opens.
std::string refusal(const fs::path& path) {
  try {
    SafetensorsFile::open(path);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kRefused);
    return e.what();
  }
  return {};
}

std::string refusal_of_bytes(const std::string& bytes) {
  const fs::path path = fresh_test_dir("safetensors-bytes") / "model.safetensors";
  write_text(path, bytes);
  const std::string message = refusal(path);
  if (!message.empty()) CHECK(message.find("model.safetensors") != std::string::npos);
  return message;
}

std::string refusal_of_header(const std::string& header, const std::string& data = "") {
  return refusal_of_bytes(file_bytes(header, data));
}

bool contains(const std::string& text, const std::string& part) {
  INFO("\"", part, "\" in: ", text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"w\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}}";
}

bool opens_or_refuses_within_100_mb(const fs::path& path) {
  const int code = exit_code_within_100_mb([&] {
    try {
      SafetensorsFile::open(path);
      return 0;
    } catch (const Error& e) {
      return e.code() == ExitCode::kRefused ? 2 : 4;
    } catch (...) {
      return 5;
    }
  });
  return code == 2 || code == 0;
}

}  // namespace

TEST_CASE("safetensors: every case of the shared bad files") {
  LLM_SKIP_WITHOUT_DATA("bad-safetensors");
  const fs::path dir = shared_data() / "fixtures" / "bad-safetensors";
  const JsonValue root = read_json_file(dir / "cases.json");
  int accepted = 0;
  int rejected = 0;
  int either = 0;
  for (const JsonValue& item : root.find("cases")->array) {
    const std::string file = item.find("file")->string;
    const std::string must = item.find("must")->string;
    INFO(file);
    const std::string message = refusal(dir / file);
    if (must == "reject") {
      CHECK(!message.empty());
      contains(message, file);
      ++rejected;
    } else if (must == "accept") {
      CHECK(message.empty());
      if (!message.empty()) continue;
      const SafetensorsFile opened = SafetensorsFile::open(dir / file);
      const JsonValue& expected = *item.find("tensors");
      CHECK(opened.entries().size() == expected.array.size());
      for (const JsonValue& name : expected.array) CHECK(opened.entries().count(name.string) == 1);
      ++accepted;
    } else {
      ++either;
    }
  }
  CHECK(rejected == 18);
  CHECK(accepted == 6);
  CHECK(either == 1);
}

TEST_CASE("safetensors: what a failed download leaves has its own message (L1)") {
  contains(refusal_of_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\n"
                            "size 12345\n"),
           "git lfs pull");
  contains(refusal_of_bytes("<html><body>404</body></html>"), "HTML");
  contains(refusal_of_bytes("\n <!DOCTYPE html>"), "HTML");
  contains(refusal_of_bytes(""), "empty");
  contains(refusal_of_bytes("GGUF\x03" + std::string(20, 'x')), "GGUF");
  contains(refusal_of_bytes("PK\x03\x04" + std::string(20, 'x')), "zip");
  contains(refusal_of_bytes("{\"error\":\"Not found\"}"), "JSON");
  contains(refusal_of_bytes("1234567"), "too short");
}

TEST_CASE("safetensors: hostile headers are refused before memory is taken (L2)") {
  contains(refusal_of_bytes(file_bytes(0x7fffffffffffffffu, "{}", "")), "header of");
  contains(refusal_of_bytes(file_bytes(uint64_t{1} << 32, "{}", "")), "header of");
  contains(refusal_of_bytes(file_bytes(~uint64_t{0}, "{}", "")), "header of");
  contains(refusal_of_bytes(file_bytes(7, "{}", "")), "5 bytes are missing");
  contains(refusal_of_header(entry("U8", "[8]", "[]"), "12345678"), "0 numbers, expected 2");
  contains(refusal_of_header(entry("U8", "[8]", "[8,0]"), "12345678"), "backwards");
  contains(refusal_of_header(entry("U8", "[8]", "[0,1099511627776]"), "12345678"), "span");
  contains(refusal_of_header(entry("U8", "[1099511627776]", "[0,1099511627776]"), "12345678"),
           "1099511627768 bytes are missing");
}

TEST_CASE("safetensors: hostile headers stay below 100 MB (L2)") {
  const fs::path path = fresh_test_dir("safetensors-memory") / "model.safetensors";
  const auto stays_small = [&](const std::string& bytes) {
    write_text(path, bytes);
    return opens_or_refuses_within_100_mb(path);
  };
  CHECK(stays_small(file_bytes(0x7fffffffffffffffu, "{}", "")));
  CHECK(stays_small(file_bytes(entry("U8", "[1099511627776]", "[0,1099511627776]"), "1")));
  const std::string deep(8'000'000, '[');
  CHECK(stays_small(file_bytes("{\"a\":" + deep, "")));
  CHECK(stays_small(file_bytes("{\"a\":{\"x\":" + deep, "")));
  std::string zeros = "[0";
  for (int i = 0; i < 4'000'000; ++i) zeros += ",0";
  CHECK(stays_small(file_bytes(entry("U8", zeros + "]", "[0,0]"), "")));
  CHECK(stays_small(file_bytes(entry("U8", "[0]", zeros + "]"), "")));
  CHECK(stays_small(file_bytes("{\"" + std::string(8'000'000, 'n') + "\":{}}", "")));
}

TEST_CASE("safetensors: each broken rule names itself") {
  const std::string ok = "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]";
  CHECK(refusal_of_header("{\"w\":{" + ok + "}}", "x").empty());
  CHECK(
      refusal_of_header("{\"w\":{" + ok + ",\"extra\":[{\"a\":[1,null]},\"s\"]}}  ", "x").empty());
  contains(refusal_of_header("{\"w\":{" + ok + "},\"w\":{" + ok + "}}", "x"), "\"w\" twice");
  contains(refusal_of_header("{\"w\":{" + ok + ",\"dtype\":\"U8\"}}", "x"), "\"dtype\" twice");
  contains(refusal_of_header("{\"__metadata__\":{\"a\":1}}"), "only strings, but \"a\"");
  contains(refusal_of_header("{\"__metadata__\":{\"a\":{}}}"), "only strings, but \"a\"");
  contains(refusal_of_header("{\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}}"), "twice");
  contains(refusal_of_header("{\"__metadata__\":[]}"), "not an object");
  contains(refusal_of_header("{\"w\":3}"), "not an object");
  contains(refusal_of_header("[1]"), "begin with");
  contains(refusal_of_header("{} {}"), "not valid JSON");
  contains(refusal_of_header(std::string("{}\0junk", 7)), "NUL");
  contains(refusal_of_header("{\"w\":{\"shape\":[1],\"data_offsets\":[0,1]}}", "x"),
           "no \"dtype\"");
  contains(refusal_of_header(entry("U9", "[1]", "[0,1]"), "x"), "unknown dtype \"U9\"");
  contains(refusal_of_header(entry("U8", "[-1]", "[0,1]"), "x"), "negative");
  contains(refusal_of_header(entry("U8", "[1.5]", "[0,1]"), "x"), "1.5");
  contains(refusal_of_header(entry("U8", "[\"1\"]", "[0,1]"), "x"), "a string");
  contains(refusal_of_header(entry("U8", "[[1]]", "[0,1]"), "x"), "a list");
  contains(refusal_of_header(entry("U8", "1", "[0,1]"), "x"), "\"shape\"");
  contains(refusal_of_header(entry("U8", "[18446744073709551616]", "[0,1]"), "x"), "shape holds");
  contains(refusal_of_header(entry("F4", "[3]", "[0,2]"), "xx"), "whole bytes");
  contains(refusal_of_header(entry("U8", "[0,4294967296,4294967296,4294967296]", "[0,0]")),
           "too large");
  contains(refusal_of_header(entry("U8", "[1]", "[1,2]"), "xx"), "a hole");
  contains(refusal_of_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                             "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                             "xyz"),
           "an overlap");
  contains(refusal_of_header(entry("U8", "[1]", "[0,1]"), "xyz"), "2 bytes follow");
  contains(refusal_of_header("{\"w\":{" + ok + ",\"x\":" + std::string(200, '[') +
                             std::string(200, ']') + "}}"),
           "deeper");
  contains(refusal("/"), "folder");
  contains(refusal("/nowhere/model.safetensors"), "no such file");
  contains(refusal("/dev/null"), "not a regular file");
}

TEST_CASE("safetensors: a cut file says how many bytes are missing (L4)") {
  const fs::path dir = fresh_test_dir("safetensors-cut");
  write_random2(dir, {.vocab_size = 320});
  const fs::path path = dir / "model.safetensors";
  const auto size = static_cast<int64_t>(fs::file_size(path));
  fs::resize_file(path, static_cast<uintmax_t>(size - 1));
  contains(refusal(path), "1 bytes are missing");
  fs::resize_file(path, static_cast<uintmax_t>(size / 2));
  contains(refusal(path), std::to_string(size - size / 2) + " bytes are missing");
}

TEST_CASE("safetensors: the writer's files are sorted, padded, and read back") {
  const fs::path path = fresh_test_dir("safetensors-writer") / "x.safetensors";
  const std::vector<float> floats = {1.5f, -2.0f};
  const std::vector<uint16_t> halves = {1, 2, 3};
  const std::vector<int8_t> small = {7};
  const std::vector<NamedTensor> tensors = {
      {"a.int8", {reinterpret_cast<const std::byte*>(small.data()), DType::kI8, Shape{1}}},
      {"b.half", {reinterpret_cast<const std::byte*>(halves.data()), DType::kBF16, Shape{3}}},
      {"c \"float\"",
       {reinterpret_cast<const std::byte*>(floats.data()), DType::kF32, Shape{2, 1}}},
      {"d.empty", {nullptr, DType::kF32, Shape{0, 4}}}};
  write_safetensors(path, tensors);
  const SafetensorsFile file = SafetensorsFile::open(path);
  CHECK(file.metadata().at("format") == "pt");
  REQUIRE(file.entries().size() == 4);
  const auto& f = file.entries().at("c \"float\"");
  CHECK(f.dims == std::vector<int64_t>{2, 1});
  CHECK(std::memcmp(f.data, floats.data(), 8) == 0);
  CHECK(reinterpret_cast<uintptr_t>(f.data) % 8 == 0);
  const auto& h = file.entries().at("b.half");
  CHECK(h.data == f.data + 8);  // largest elements first
  CHECK(file.entries().at("a.int8").data == h.data + 6);
  CHECK(!fs::exists(path.string() + ".partial"));
}

TEST_CASE("safetensors: write errors are reported") {
  const std::vector<char> data(1 << 20);
  const std::vector<NamedTensor> tensors = {
      {"a", {reinterpret_cast<const std::byte*>(data.data()), DType::kU8, Shape{1 << 20}}}};
  CHECK_THROWS_AS(write_safetensors("/dev/full", tensors), Error);
  CHECK_THROWS_AS(write_safetensors("/nowhere/x.safetensors", tensors), Error);
}
