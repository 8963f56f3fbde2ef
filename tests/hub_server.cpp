#include "hub_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "test_data.h"

namespace llm {
namespace {

constexpr int kPollMs = 50;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Reads to the blank line that ends a request's head.
std::string read_head(int connection, const std::atomic<bool>& stopping) {
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos && !stopping) {
    pollfd fd = {connection, POLLIN, 0};
    if (::poll(&fd, 1, kPollMs) <= 0) continue;
    std::array<char, 4096> block;
    const ssize_t got = ::recv(connection, block.data(), block.size(), 0);
    if (got <= 0) return {};
    head.append(block.data(), static_cast<size_t>(got));
  }
  return head;
}

HubRequest parse(const std::string& head) {
  HubRequest request;
  std::istringstream lines(head);
  std::string line;
  std::getline(lines, line);
  std::istringstream(line.substr(line.find(' ') + 1)) >> request.path;
  while (std::getline(lines, line) && line != "\r") {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 1);
    value.erase(0, value.find_first_not_of(' '));
    value.erase(value.find_last_not_of('\r') + 1);
    request.headers[lower(line.substr(0, colon))] = value;
  }
  return request;
}

/// Part of a body as "Range: bytes=N-" asks for it.
void apply_range(const HubRequest& request, HubReply& reply) {
  const std::string range = request.header("range");
  if (!range.starts_with("bytes=")) return;
  const size_t first = std::stoul(range.substr(6));
  const size_t size = reply.body.size();
  if (first >= size) {
    reply = HubReply{.status = 416};
    return;
  }
  reply.status = 206;
  reply.headers["Content-Range"] = fmt::format("bytes {}-{}/{}", first, size - 1, size);
  reply.body.erase(0, first);
}

/// False when nobody reads any more.
bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

std::string HubRequest::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

bool HubRequest::is_for(const std::string& name) const { return path.ends_with("/" + name); }

HubServer::HubServer() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, raw, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, raw, &size) != 0) {
    throw std::runtime_error("no socket on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_loop(); });
}

HubServer::~HubServer() {
  stopping_ = true;
  acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  ::close(listener_);
}

std::vector<HubRequest> HubServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int HubServer::count(const std::string& name) const {
  int count = 0;
  for (const HubRequest& request : requests()) count += request.is_for(name) ? 1 : 0;
  return count;
}

void HubServer::accept_loop() {
  while (!stopping_) {
    pollfd fd = {listener_, POLLIN, 0};
    if (::poll(&fd, 1, kPollMs) <= 0) continue;
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) connections_.emplace_back([this, connection] { serve(connection); });
  }
}

void HubServer::serve(int connection) {
  const std::string head = read_head(connection, stopping_);
  if (!head.empty()) send(connection, reply_to(parse(head)));
  ::close(connection);
}

HubReply HubServer::reply_to(const HubRequest& request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
  HubReply reply = proper_reply(request);
  if (misbehave) misbehave(request, reply);
  return reply;
}

HubReply HubServer::proper_reply(const HubRequest& request) const {
  HubReply reply;
  if (request.path.starts_with("/api/models/")) {
    reply.body = describe_model();
    return reply;
  }
  const auto file = files.find(request.path.substr(request.path.rfind('/') + 1));
  if (file == files.end()) return HubReply{.status = 404};
  reply.body = file->second.bytes;
  apply_range(request, reply);
  return reply;
}

/// As the hub's /api/models/ID/revision/main?blobs=true has it, with some of what else it says.
std::string HubServer::describe_model() const {
  std::string siblings;
  for (const auto& [name, file] : files) {
    const std::string& bytes = file.bytes;
    const int64_t size = file.told_size.value_or(static_cast<int64_t>(bytes.size()));
    const std::string blob = digest("sha1sum", fmt::format("blob {}", bytes.size()) + '\0' + bytes);
    std::string lfs;
    if (file.large) {
      lfs = fmt::format(R"(,"lfs":{{"sha256":"{}","size":{},"pointerSize":134}})",
                        file.told_hash.value_or(digest("sha256sum", bytes)), size);
    }
    siblings += fmt::format(R"({}{{"rfilename":"{}","blobId":"{}","size":{}{}}})",
                            siblings.empty() ? "" : ",", name,
                            file.large ? blob : file.told_hash.value_or(blob), size, lfs);
  }
  return fmt::format(
      R"({{"id":"o/m","private":false,"cardData":{{"text":"a \"quote\" \\ {{]"}},"tags":[],)"
      R"("siblings":[{}],"spaces":["x/y"],"downloads":1.5e6,"sha":"{}"}})",
      siblings, commit);
}

void HubServer::send(int connection, const HubReply& reply) {
  std::string head = fmt::format("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  if (!reply.endless) {
    const int64_t size = reply.announced.value_or(static_cast<int64_t>(reply.body.size()));
    head += fmt::format("Content-Length: {}\r\n", size);
  }
  if (!send_all(connection, head + "\r\n")) return;
  const std::string_view body = reply.body;
  bool read = send_all(connection, body.substr(0, reply.cut_after.value_or(body.size())));
  while (read && reply.endless && !stopping_) read = send_all(connection, body);
  while (reply.stall && !stopping_) {
    pollfd fd = {connection, POLLIN, 0};
    if (::poll(&fd, 1, kPollMs) > 0) return;  // the other end has gone
  }
}

std::string digest(const char* tool, const std::string& bytes) {
  // One file per thread: connections are served at the same time.
  static std::atomic<int> counter{0};
  static const std::filesystem::path dir = fresh_test_dir("digest");
  const std::filesystem::path path = dir / std::to_string(counter++);
  std::ofstream(path, std::ios::binary) << bytes;
  FILE* pipe = ::popen(fmt::format("{} '{}'", tool, path.string()).c_str(), "re");
  if (pipe == nullptr) throw std::runtime_error(tool);
  std::array<char, 256> line{};
  const bool got = std::fgets(line.data(), line.size(), pipe) != nullptr;
  ::pclose(pipe);
  std::filesystem::remove(path);
  const std::string text(got ? line.data() : "");
  return text.substr(0, text.find(' '));
}

}  // namespace llm
