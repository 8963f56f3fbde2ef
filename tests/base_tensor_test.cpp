#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

using namespace llm;

TEST_CASE("shape: rank, extents, elements, text") {
  const Shape shape = {17, 4, 1024};
  CHECK(shape.rank() == 3);
  CHECK(shape[2] == 1024);
  CHECK(shape.num_elements() == 17 * 4 * 1024);
  CHECK(to_string(shape) == "[17, 4, 1024]");
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{}.num_elements() == 1);
  CHECK(Shape{3, 0}.num_elements() == 0);
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  const std::vector<int64_t> five(5, 1);
  CHECK_THROWS_AS(Shape(std::span<const int64_t>(five)), std::logic_error);
}

TEST_CASE("tensor: bytes by dtype, typed access only as what it is") {
  CHECK(byte_size(DType::kBF16, {3, 5}) == 30);
  CHECK(byte_size(DType::kF4, {3, 2}) == 3);
  Buffer buffer(64);
  const Tensor t = buffer.tensor(DType::kF32, {4, 4});
  t.as<float>()[5] = 2.5f;
  const ConstTensor view = t;
  CHECK(view.as<float>()[5] == 2.5f);
  CHECK(view.bytes() == 64);
  CHECK_THROWS_AS(t.as<BF16>(), std::logic_error);
  CHECK_THROWS_AS(view.as<int32_t>(), std::logic_error);
}

TEST_CASE("buffer: zero-filled, aligned, moved without copying, refuses a shape that doesn't fit") {
  for (const int64_t bytes : {int64_t{1}, int64_t{100}, int64_t{3} << 20}) {
    const Buffer buffer(bytes);
    CHECK(buffer.size() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0);
    CHECK(std::all_of(buffer.data(), buffer.data() + bytes,
                      [](std::byte b) { return b == std::byte{0}; }));
  }
  Buffer a(128);
  std::byte* memory = a.data();
  memory[7] = std::byte{9};
  Buffer b(std::move(a));
  CHECK(b.data() == memory);
  Buffer c;
  c = std::move(b);
  CHECK(c.data() == memory);
  CHECK(c.size() == 128);
  CHECK(c.data()[7] == std::byte{9});
  CHECK_THROWS_AS(c.tensor(DType::kF32, {33}), std::logic_error);
  CHECK(Buffer(0).data() == nullptr);
}

TEST_CASE("buffer: memory that can't be had is an error with exit code 1 that says how much") {
  try {
    const Buffer buffer(int64_t{1} << 60);
    FAIL("2^60 bytes were given");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kFailed);
    CHECK(std::string(e.what()).find("1073741824.00 GiB") != std::string::npos);
  }
}

TEST_CASE("error: refuse and fail carry their exit codes, a broken promise names its place") {
  try {
    refuse("{} is {}", "x", 3);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kRefused);
    CHECK(std::string(e.what()) == "x is 3");
  }
  try {
    fail("no {}", "luck");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kFailed);
    CHECK(std::string(e.what()) == "no luck");
  }
  try {
    LLM_CHECK(1 + 1 == 3, "sum was {}", 2);
    FAIL("passed");
  } catch (const std::logic_error& e) {
    const std::string message = e.what();
    CHECK(message.find("base_tensor_test.cpp") != std::string::npos);
    CHECK(message.find("1 + 1 == 3") != std::string::npos);
    CHECK(message.find("sum was 2") != std::string::npos);
  }
}
