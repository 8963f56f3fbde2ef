// A model hub on 127.0.0.1 that can be made to misbehave, for tests of downloads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace llm {

struct HubRequest {
  std::string path;                            // with the query
  std::map<std::string, std::string> headers;  // names in lower case

  std::string header(const std::string& name) const;
  /// Asks for a file's content: its path ends with /NAME.
  bool is_for(const std::string& name) const;
};

struct HubReply {
  int status = 200;
  std::map<std::string, std::string> headers{};
  std::string body{};
  std::optional<int64_t> announced{};  // as Content-Length in place of the body's size
  std::optional<size_t> cut_after{};   // bytes of the body, then the connection closes
  bool stall = false;                  // after these bytes nothing comes any more
  bool endless = false;                // the body is repeated until nobody reads; no Content-Length
};

/// What is served, and how the API describes it.
struct HubFile {
  std::string bytes;
  bool large = false;                  // in the large-file store: known by its sha256
  std::optional<int64_t> told_size{};  // in place of the true ones
  std::optional<std::string> told_hash{};
};

class HubServer {
 public:
  HubServer();
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // Set before requests come.
  std::map<std::string, HubFile> files;
  std::string commit = std::string(40, 'a');
  /// Changes the proper reply; called by one thread at a time.
  std::function<void(const HubRequest&, HubReply&)> misbehave;

  std::vector<HubRequest> requests() const;
  /// How often a file's content was asked for.
  int count(const std::string& name) const;

 private:
  void accept_loop();
  void serve(int connection);
  HubReply reply_to(const HubRequest& request);
  HubReply proper_reply(const HubRequest& request) const;
  std::string describe_model() const;
  void send(int connection, const HubReply& reply);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<HubRequest> requests_;
  std::vector<std::thread> connections_;
  std::thread acceptor_;
};

/// Hex digest as `tool` (sha256sum, sha1sum) prints it.
std::string digest(const char* tool, const std::string& bytes);

}  // namespace llm
