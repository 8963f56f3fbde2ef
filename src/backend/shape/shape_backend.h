// The backend that does no arithmetic: the same calls, checks and reports, no memory touched. It
// serves shape traces and estimates of models that don't fit.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace llm {

std::unique_ptr<Backend> make_shape_backend();

}  // namespace llm
