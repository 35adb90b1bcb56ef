// Everything that a person far away needs to look into a job: what it left, the verdict on it, and what this machine
// is.
#pragma once

#include <absl/status/status.h>
#include <zstd.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/jobs/locate.h"

namespace ncclwatch::analyzer {

// A tar file (POSIX ustar) packed by zstd, written piece by piece: `tar --zstd -xf` reads it.

class TarZst {
 public:
  // `write` takes packed bytes, in order. False: nothing more can be written, and all that follows is false too.
  using Write = std::function<bool(std::string_view)>;
  // std::bad_alloc.
  explicit TarZst(Write write);

  // False: it is longer than the format takes, 100 bytes behind one of its `/` and 155 before it.
  static bool Takes(const std::string& name);

  // What goes into a file of `size` bytes comes next, through Add. False: the name is too long, or nothing can be
  // written.
  bool Begin(const std::string& name, std::uint64_t size, std::int64_t modified_s);
  // More than `size` is cut.
  bool Add(std::string_view bytes);
  // What is missing of `size` is filled with zeroes.
  bool End();

  bool File(const std::string& name, std::string_view bytes, std::int64_t modified_s) {
    return Begin(name, bytes.size(), modified_s) && Add(bytes) && End();
  }
  bool Finish();

 private:
  bool Pack(std::string_view bytes, ZSTD_EndDirective end = ZSTD_e_continue);

  Write write_;
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> packer_;
  std::string out_;
  std::uint64_t size_ = 0, left_ = 0;  // of the file at hand
  bool well_ = true;
};

struct BundleRequest {
  Located located;                                  // the job
  std::vector<std::string> logs;                    // files and folders of them
  bool redact = false;                              // host names, addresses, paths, arguments
  std::uint64_t most_bytes = 10ull << 30;           // of one file, unpacked: larger ones are left out
  const nlohmann::ordered_json* machine = nullptr;  // what is known of this machine
};

struct Bundled {
  std::vector<std::pair<std::string, std::uint64_t>> files;   // names in the bundle, bytes
  std::vector<std::pair<std::string, std::string>> left_out;  // names in the bundle, why
};

// ncclwatch.bundle/1.
nlohmann::ordered_json ManifestOf(const BundleRequest& request, const Bundled& bundled);

// Unavailable: `write` could not write. Not found: there was nothing to put in.
absl::Status WriteBundle(const BundleRequest& request, TarZst::Write write, Bundled* bundled);

}  // namespace ncclwatch::analyzer
