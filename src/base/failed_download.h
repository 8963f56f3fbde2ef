// What people have in place of a model's file when a download went wrong.
#pragma once

#include <string>
#include <string_view>

namespace llm {

/// Refuses (exit code 2) by its kind a file that is empty, a large-file store's pointer, or an HTML
/// page. `head` is the start of the file, `wanted` what it should be ("weights", "JSON"), and
/// `origin` names it.
void refuse_failed_download(std::string_view head, std::string_view wanted,
                            const std::string& origin);

}  // namespace llm
