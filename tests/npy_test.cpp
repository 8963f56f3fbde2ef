#include "io/npy.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "checkpoint_maker.h"
#include "test_data.h"

using namespace llm;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("npy: rows written piece by piece read back") {
  const fs::path path = fresh_test_dir("npy") / "a.npy";
  std::vector<float> values(3 * 5);
  std::iota(values.begin(), values.end(), -4.5f);
  NpyWriter writer(path, 3, 5);
  writer.write(std::span(values).first(7));
  CHECK(!fs::exists(path));  // not before it is complete
  writer.write(std::span(values).subspan(7));
  writer.close();
  const NpyMatrix matrix = read_npy(path);
  CHECK(matrix.rows == 3);
  CHECK(matrix.cols == 5);
  CHECK(matrix.values == values);

  const std::string bytes = bytes_of(path);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const size_t header =
      10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  CHECK(header % 64 == 0);
  CHECK(bytes[header - 1] == '\n');
  CHECK(bytes.size() == header + 15 * 4);
}

TEST_CASE("npy: an unfinished file leaves nothing") {
  const fs::path path = fresh_test_dir("npy-unfinished") / "a.npy";
  {
    NpyWriter writer(path, 2, 2);
    writer.write(std::vector<float>(3));
    CHECK_THROWS_AS(writer.write(std::vector<float>(2)), std::logic_error);
  }
  {
    NpyWriter writer(path, 2, 2);
    CHECK_THROWS_AS(writer.close(), std::logic_error);
  }
  CHECK(fs::is_empty(path.parent_path()));
}

TEST_CASE("npy: a full disk is an error") {
  NpyWriter writer("/dev/full", 1, 1);
  const std::vector<float> one(1);
  const auto write_and_close = [&] {
    writer.write(one);
    writer.close();
  };
  CHECK_THROWS_AS(write_and_close(), Error);
  CHECK_THROWS_AS(NpyWriter("/nowhere/a.npy", 1, 1), Error);
}

TEST_CASE("npy: what isn't a float32 matrix is refused") {
  const fs::path path = fresh_test_dir("npy-bad") / "a.npy";
  NpyWriter writer(path, 1, 2);
  writer.write(std::vector<float>(2));
  writer.close();
  const std::string good = bytes_of(path);
  const auto refused = [&](const std::string& bytes) {
    write_text(path, bytes);
    try {
      read_npy(path);
    } catch (const Error& e) {
      return e.code() == ExitCode::kRefused;
    }
    return false;
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(!refused(good));
  CHECK(refused(""));
  CHECK(refused(good.substr(0, 40)));
  CHECK(refused(good.substr(0, good.size() - 1)));
  CHECK(refused(good + "x"));
  CHECK(refused(replaced("<f4", "<f8")));
  CHECK(refused(replaced("False", "True ")));
  CHECK(refused(replaced("(1, 2)", "(2, 2)")));
  CHECK(refused(replaced("(1, 2)", "(-1,2)")));
}
