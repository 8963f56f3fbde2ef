#include "base/failed_download.h"

#include "base/error.h"

namespace llm {

void refuse_failed_download(std::string_view head, std::string_view wanted,
                            const std::string& origin) {
  if (head.empty()) refuse("{}: the file is empty (incomplete download?)", origin);
  // https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
  if (head.starts_with("version https://git-lfs")) {
    refuse(
        "{}: is a Git LFS pointer, not the {} itself: fetch it with `git lfs pull` in that "
        "repository, or download the model again",
        origin, wanted);
  }
  const size_t text = head.substr(0, 512).find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (text != std::string_view::npos && head[text] == '<') {
    refuse("{}: is an HTML or XML page, not {}: the download failed; download the file again",
           origin, wanted);
  }
}

}  // namespace llm
